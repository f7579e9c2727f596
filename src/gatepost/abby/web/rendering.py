"""Pages for people who are signed in: what every one of them shows, and the values that only it has."""

from typing import Any

from jinja2 import Environment

from gatepost.abby.web.navigation import ENTRIES
from gatepost.abby.web.notices import NOTICES
from gatepost.abby.web.visit import Visit


class Renderer:
    """Templates to text."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def page(self, template: str, visit: Visit, **values: Any) -> str:
        """A page for somebody who is signed in."""
        return self._environment.get_template(template).render(
            visit=visit,
            user=visit.user,
            csrf=visit.session.csrf,
            navigation=[entry for entry in ENTRIES if visit.may(entry.may)],
            notice=NOTICES.get(visit.query.text("done"), ""),
            **values,
        )

    def plain(self, template: str, **values: Any) -> str:
        """A page for anybody, or a piece of one."""
        return self._environment.get_template(template).render(visit=None, notice="", **values)
