"""Logging in and out."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard import audit
from pinlater.dashboard.access import Cookie, form_of, own_path, peer_of
from pinlater.dashboard.app_state import board_of
from pinlater.dashboard.forms import asked
from pinlater.dashboard.render import page
from pinlater.dashboard.sessions import MAX_PASSWORD_CHARACTERS, Role, TooManyGuesses


async def login_page(request: Request) -> Response:
    """Ask for the password."""
    if board_of(request).options.admin_hash is None:
        return RedirectResponse("/", 303)
    return page(request, "login.html", next=own_path(asked(request, "next", 2000)), problem="")


async def login(request: Request) -> Response:
    """Check the password, and open a session."""
    board, form = board_of(request), form_of(request)
    target = own_path(form.text("next", 2000))
    if board.options.admin_hash is None:
        return RedirectResponse("/", 303)
    try:
        role = await board.doorkeeper.role_of(form.raw("password", MAX_PASSWORD_CHARACTERS), peer_of(request))
    except TooManyGuesses as error:
        answer = page(request, "login.html", 429, next=target, problem=f"{error}.".capitalize())
        answer.headers["Retry-After"] = str(int(error.seconds) + 1)
        return answer
    if role is None:
        audit.write(f"?@{peer_of(request)}", "wrong-password", "dashboard")
        return page(request, "login.html", 403, next=target, problem="This is not the password.")
    audit.write(f"{role}@{peer_of(request)}", "login", "dashboard")
    return _welcomed(request, role, target)


def _welcomed(request: Request, role: Role, target: str) -> Response:
    board = board_of(request)
    name, path, is_secure = Cookie.of(request, board.options)
    board.sessions.end(request.cookies.get(name))
    answer = RedirectResponse(target, 303)
    token = board.sessions.begin(role)
    answer.set_cookie(name, token, path=path, httponly=True, samesite="strict", secure=is_secure)
    return answer


async def logout(request: Request) -> Response:
    """End the session."""
    board = board_of(request)
    name, path, is_secure = Cookie.of(request, board.options)
    board.sessions.end(request.cookies.get(name))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(name, path=path, httponly=True, samesite="strict", secure=is_secure)
    return answer
