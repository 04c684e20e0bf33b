"""Sessions and passwords, by themselves."""

import asyncio

from pinlater.dashboard.sessions import (
    IDLE_SECONDS,
    LONGEST_SECONDS,
    MOST_SESSIONS,
    PasswordChecker,
    Role,
    Sessions,
    TooManyGuesses,
)
from tests.unit.dashboard.app import (
    ADMIN,
    ADMIN_HASH,
    READER,
    READER_HASH,
)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_session_ends_when_nobody_does_anything():
    clock = Clock()
    sessions = Sessions(clock)
    token = sessions.begin(Role.ADMIN)
    clock.now = IDLE_SECONDS - 1
    assert sessions.find(token, is_used=False)
    clock.now = IDLE_SECONDS + 1
    assert sessions.find(token, is_used=True) is None


def test_a_session_that_is_used_ends_all_the_same_after_half_a_day():
    clock = Clock()
    sessions = Sessions(clock)
    token = sessions.begin(Role.ADMIN)
    while clock.now <= LONGEST_SECONDS:
        assert sessions.find(token, is_used=True)
        clock.now += IDLE_SECONDS / 2
    assert sessions.find(token, is_used=True) is None


def test_sessions_are_bounded():
    sessions = Sessions()
    tokens = [sessions.begin(Role.READER) for _ in range(MOST_SESSIONS + 1)]
    assert sessions.find(tokens[0], is_used=True) is None
    assert sessions.find(tokens[-1], is_used=True)
    assert sessions.find(None, is_used=True) is None
    assert sessions.find("", is_used=True) is None


async def guess(passwords, password, peer="1.2.3.4"):
    try:
        return await passwords.role_of(password, peer)
    except TooManyGuesses as error:
        return error.seconds


def test_nobody_is_told_to_try_again_in_no_time():
    assert str(TooManyGuesses(0.3)) == "too many wrong passwords; try again in 1 s"


def test_guessing_gets_slower_and_the_right_password_ends_that():
    clock = Clock()
    passwords = PasswordChecker({Role.ADMIN: ADMIN_HASH, Role.READER: READER_HASH}, clock)

    async def main():
        found = []
        for _ in range(4):
            found += [await guess(passwords, "x"), await guess(passwords, ADMIN)]
            clock.now += 8
        assert await guess(passwords, ADMIN, "5.6.7.8") is Role.ADMIN  # of another peer
        found += [await guess(passwords, READER), await guess(passwords, "x")]
        return found

    assert asyncio.run(main()) == [None, 1, None, 2, None, 4, None, 8, Role.READER, None]


def test_guesses_that_are_sent_at_once_are_slowed_down_as_well():
    passwords = PasswordChecker({Role.ADMIN: ADMIN_HASH}, Clock())

    async def main():
        return await asyncio.gather(*[guess(passwords, "x") for _ in range(4)])

    assert asyncio.run(main()) == [None, 1, 1, 1]


def test_a_flood_of_guesses_leaves_a_place_to_those_who_knew_the_password_before():
    passwords = PasswordChecker({Role.ADMIN: ADMIN_HASH})

    async def main():
        assert await guess(passwords, ADMIN, "operator") is Role.ADMIN
        flood = [guess(passwords, "x", f"stranger {number}") for number in range(6)]
        return await asyncio.gather(*flood, guess(passwords, ADMIN, "operator"))

    *strangers, operator = asyncio.run(main())
    assert strangers == [None] * 4 + [1] * 2
    assert operator is Role.ADMIN
