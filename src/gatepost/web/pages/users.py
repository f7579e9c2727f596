"""Users: who may sign in, with which role, for the whole deployment or for one tenant.

An administrator of one tenant manages the users of that tenant. Nobody changes their own role or shuts themselves out.
"""

from typing import cast

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.store.errors import LastAdministrator, NameTaken, NotFound
from gatepost.store.users import Role, User
from gatepost.web.context import WebContext, scopes
from gatepost.web.credentials import invented
from gatepost.web.request import MEANING, NOT_HERE, ROLES, SignedInRequest
from gatepost.web.responses import html_response, redirect
from gatepost.web.site import Page, Row

LONGEST_NAME = 100
LAST = "this is the last administrator of the deployment; make another one first"
ONESELF = "this is your own account; another administrator can change it"


async def show(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """All users that the visitor may see."""
    return html_response(await _page(desk, visit))


async def create(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Make a user. The password is invented, and in this answer only."""
    scope = visit.scope(visit.form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    name, role = visit.form.text("name", LONGEST_NAME), visit.form.text("role")
    if not name or not name.isprintable():
        return html_response(await _page(desk, visit, fault="a user needs a name, of printable characters"), 400)
    if role not in ROLES:
        return html_response(await _page(desk, visit, fault="a user needs a role"), 400)
    password = invented()
    kept = await desk.passwords.hashed(password)
    made = await desk.store.create_user(name, cast(Role, role), scope, kept, visit.actor)
    if isinstance(made, NotFound):
        return NOT_HERE
    if isinstance(made, NameTaken):
        return html_response(await _page(desk, visit, fault=f"there is a user called {made.name} already"), 409)
    return html_response(await _page(desk, visit, shown=(made, password)))


async def change(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Another role, or shut out, or let in again."""
    user = await _user(desk, visit)
    if isinstance(user, Failure):
        return user
    if user.uid == visit.user.uid:
        return html_response(await _page(desk, visit, fault=ONESELF), 409)
    role, disabled = visit.form.text("role"), visit.form.text("disabled")
    outcome = await desk.store.change_user(
        user.uid,
        by=visit.actor,
        role=cast(Role, role) if role in ROLES else None,
        disabled={"yes": True, "no": False}.get(disabled),
    )
    return await _answered(desk, visit, outcome, "changed")


async def renew(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Another password, for somebody who lost theirs; with it goes the second factor, if that is asked for."""
    user = await _user(desk, visit)
    if isinstance(user, Failure):
        return user
    if user.uid == visit.user.uid:
        return redirect("/account")
    password = invented()
    await desk.store.set_password(user.uid, await desk.passwords.hashed(password), visit.actor)
    if visit.form.has("totp"):
        await desk.store.set_totp(user.uid, None, visit.actor)
    return html_response(await _page(desk, visit, shown=(user, password)))


async def delete(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Delete a user."""
    user = await _user(desk, visit)
    if isinstance(user, Failure):
        return user
    if user.uid == visit.user.uid:
        return html_response(await _page(desk, visit, fault=ONESELF), 409)
    return await _answered(desk, visit, await desk.store.delete_user(user.uid, visit.actor), "user-deleted")


async def _answered(
    desk: WebContext, visit: SignedInRequest, outcome: User | NotFound | LastAdministrator, done: str
) -> Response | Failure:
    if isinstance(outcome, NotFound):
        return NOT_HERE
    if isinstance(outcome, LastAdministrator):
        return html_response(await _page(desk, visit, fault=LAST), 409)
    return redirect(f"/users?done={done}")


async def _user(desk: WebContext, visit: SignedInRequest) -> User | Failure:
    """The user that the path names, if it is one that the visitor may manage."""
    user = await desk.store.user(visit.part("uid"))
    if user is None or (visit.user.tenant and user.tenant != visit.user.tenant):
        return NOT_HERE
    return user


async def _page(
    desk: WebContext, visit: SignedInRequest, *, fault: str = "", shown: tuple[User, str] | None = None
) -> str:
    return desk.renderer.page(
        "users.html",
        visit,
        here="/users",
        users=await desk.store.users(visit.user.tenant),
        scopes=await scopes(desk, visit),
        meaning=MEANING,
        fault=fault,
        shown=shown,
        base=str(visit.request.base_url).rstrip("/"),
    )


ROWS: tuple[Row, ...] = (
    Page("GET", "/users", show, "users.read"),
    Page("POST", "/users", create, "users.change"),
    Page("POST", "/users/{uid}", change, "users.change"),
    Page("POST", "/users/{uid}/password", renew, "users.change"),
    Page("POST", "/users/{uid}/delete", delete, "users.change"),
)
