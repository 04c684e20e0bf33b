"""What people use who write jobs: job classes, their options, context, steps, schedules, bodies and middleware."""
