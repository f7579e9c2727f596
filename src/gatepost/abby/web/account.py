"""One's own account: password, second factor, and where one is signed in."""

from starlette.responses import Response

from gatepost.abby.web import totp
from gatepost.abby.web.answers import html, see
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.passwords import refused
from gatepost.abby.web.site import Page, Row
from gatepost.abby.web.visit import Visit
from gatepost.api.errors import Failure

WRONG_PASSWORD = "The current password is not right; nothing was changed."  # noqa: S105  a sentence
WRONG_CODE = "That code is not the one of now; nothing was changed. Is the clock of your device right?"


async def show(desk: Desk, visit: Visit) -> Response | Failure:
    """The page."""
    return html(await _page(desk, visit))


async def change_password(desk: Desk, visit: Visit) -> Response | Failure:
    """Set another password; every other session ends."""
    wanted = visit.form.whole("new")
    fault = ""
    if not await _proven(desk, visit):
        fault = WRONG_PASSWORD
    elif wanted != visit.form.whole("again"):
        fault = "The new password was not typed twice the same; nothing was changed."
    elif reason := refused(wanted, visit.user.name):
        fault = f"The new password is not taken: {reason}."
    if fault:
        return html(await _page(desk, visit, fault=fault), 400)
    await desk.store.set_password(
        visit.user.uid, await desk.passwords.hashed(wanted), visit.actor, keep=visit.session.id
    )
    return see("/account?done=password")


async def offer_totp(desk: Desk, visit: Visit) -> Response | Failure:
    """Show a new secret; it means nothing until a code of it comes back, together with the password."""
    return html(await _page(desk, visit, secret=totp.new_secret()))


async def confirm_totp(desk: Desk, visit: Visit) -> Response | Failure:
    """The password proves who it is, and a code that the app has the secret."""
    secret = visit.form.text("secret", 64)
    if not totp.is_secret(secret):
        return see("/account")
    if not await _proven(desk, visit):
        return html(await _page(desk, visit, fault=WRONG_PASSWORD, secret=secret), 400)
    step = totp.step_of(secret, visit.form.text("code", 20), desk.clock())
    if step is None:
        return html(await _page(desk, visit, fault=WRONG_CODE, secret=secret), 400)
    await desk.store.set_totp(visit.user.uid, secret, visit.actor, step)
    return see("/account?done=totp-on")


async def remove_totp(desk: Desk, visit: Visit) -> Response | Failure:
    """Sign in without a code from now on."""
    if not await _proven(desk, visit):
        return html(await _page(desk, visit, fault=WRONG_PASSWORD), 400)
    await desk.store.set_totp(visit.user.uid, None, visit.actor)
    return see("/account?done=totp-off")


async def end_session(desk: Desk, visit: Visit) -> Response | Failure:
    """End one of one's own sessions."""
    await desk.store.end_session(visit.part("id"), visit.actor, visit.user.uid)
    return see("/account?done=session-ended")


async def end_others(desk: Desk, visit: Visit) -> Response | Failure:
    """End all of them but this one."""
    await desk.store.end_sessions(visit.user.uid, visit.actor, keep=visit.session.id)
    return see("/account?done=sessions-ended")


async def _proven(desk: Desk, visit: Visit) -> bool:
    """A browser that was left open must not be enough to take an account over."""
    found = await desk.store.credentials(visit.user.name)
    if found is None or found.locked_until > desk.now():
        return False
    right = await desk.passwords.right(found.password, visit.form.whole("password"))
    if not right:
        await desk.store.note_failure(visit.user.uid, desk.now())
    return right


async def _page(desk: Desk, visit: Visit, *, fault: str = "", secret: str = "") -> str:
    return desk.renderer.page(
        "account.html",
        visit,
        here="/account",
        fault=fault,
        secret=secret,
        picture=totp.picture(secret, visit.user.name) if secret else None,
        sessions=await desk.store.sessions(visit.user.uid, desk.now()),
    )


ROWS: tuple[Row, ...] = (
    Page("GET", "/account", show),
    Page("POST", "/account/password", change_password),
    Page("POST", "/account/totp", offer_totp),
    Page("POST", "/account/totp/confirm", confirm_totp),
    Page("POST", "/account/totp/remove", remove_totp),
    Page("POST", "/account/sessions/{id}/end", end_session),
    Page("POST", "/account/sessions/end", end_others),
)
