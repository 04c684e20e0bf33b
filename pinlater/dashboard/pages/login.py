"""Login and logout."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pinlater.dashboard import audit
from pinlater.dashboard.access import Cookie, form_of, local_path, peer_of
from pinlater.dashboard.app_state import get_app_state
from pinlater.dashboard.forms import query_text
from pinlater.dashboard.render import page
from pinlater.dashboard.sessions import MAX_PASSWORD_CHARACTERS, Role, TooManyGuesses


async def login_page(request: Request) -> Response:
    """Show the login form."""
    if get_app_state(request).options.admin_hash is None:
        return RedirectResponse("/", 303)
    return page(request, "login.html", next=local_path(query_text(request, "next", 2000)), problem="")


async def login(request: Request) -> Response:
    """Check the password and open a session."""
    app, form = get_app_state(request), form_of(request)
    target = local_path(form.text("next", 2000))
    if app.options.admin_hash is None:
        return RedirectResponse("/", 303)
    try:
        role = await app.passwords.role_of(form.raw("password", MAX_PASSWORD_CHARACTERS), peer_of(request))
    except TooManyGuesses as error:
        answer = page(request, "login.html", 429, next=target, problem=f"{error}.".capitalize())
        answer.headers["Retry-After"] = str(error.seconds)
        return answer
    if role is None:
        audit.write(f"?@{peer_of(request)}", "wrong-password", "dashboard")
        return page(request, "login.html", 403, next=target, problem="Wrong password.")
    audit.write(f"{role}@{peer_of(request)}", "login", "dashboard")
    return _open_session(request, role, target)


def _open_session(request: Request, role: Role, target: str) -> Response:
    app = get_app_state(request)
    name, path, is_secure = Cookie.of(request, app.options)
    app.sessions.end(request.cookies.get(name))
    answer = RedirectResponse(target, 303)
    token = app.sessions.begin(role)
    answer.set_cookie(name, token, path=path, httponly=True, samesite="strict", secure=is_secure)
    return answer


async def logout(request: Request) -> Response:
    """Close the session."""
    app = get_app_state(request)
    name, path, is_secure = Cookie.of(request, app.options)
    app.sessions.end(request.cookies.get(name))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(name, path=path, httponly=True, samesite="strict", secure=is_secure)
    return answer
