"""What authors of jobs use: job classes, options, context, steps, schedules, bodies and middleware."""
