"""What the guide of testing takes for granted: what was sold."""

reports, reminded = [], []


def sold_on(day):
    return (day + 1) * 10


def report(total):
    reports.append(total)


def charge_at_the_bank(order):
    return 10 * order
