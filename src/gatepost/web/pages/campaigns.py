"""The page of a campaign: what joins its messages, when they came, who sent them to whom, and what became of them.

A campaign is named by one of its messages. Its other messages are those near it in time that have nearly the same text,
the same file, or the same subject from the same sender or with links to the same host (`store.campaign_members`). A
recipient is reached by what was delivered or released; who got nothing else but held mail is not. The actions are those
of the list of messages, on all that the campaign has.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from gatepost.store.campaign_members import Campaign, CampaignMember
from gatepost.store.found_values import FoundValues
from gatepost.store.search_language import EVERYTHING
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import Form
from gatepost.web.found_mail import draw_times
from gatepost.web.message_search import Search, find_people
from gatepost.web.pages.messages import MessageOnRecord, for_message
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute

TOP = 10
ROWS_SHOWN = 50
# What became of mail, by its decision; that of held mail is by its state.
REACHED = frozenset({"delivered", "released"})
BECAME = {"deliver": "delivered", "bounce": "bounced", "drop": "dropped", "undecided": "put off"}


class People(msgspec.Struct, frozen=True):
    """Recipients of a campaign: those who got one of its messages, and those who got none."""

    reached: tuple[str, ...]
    spared: tuple[str, ...]


@for_message
async def show_campaign(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Show the campaign of a message."""
    campaign = await context.store.messages.campaign(found.record, request.user.tenant)
    members = campaign.members
    states = await context.store.quarantine.states([each.ggrid for each in members])
    became = {each.ggrid: _name_outcome(each, states) for each in members}
    search = _search_for(found.record.ggrid, campaign)
    times = tuple((each.completed, each.verdict) for each in members)
    chart, steps = draw_times(FoundValues(len(members), times=times), search, context.now())
    scopes = await find_scopes(context, request)
    return await context.page(
        request,
        "campaign.html",
        here="/messages",
        record=found.record,
        campaign=campaign,
        became=became,
        outcomes=Counter(became.values()).most_common(),
        verdicts=Counter(each.verdict for each in members).most_common(),
        search=search,
        chart=chart,
        steps=steps,
        people=_find_reached(members, became),
        tops=_count_values(members),
        shown=ROWS_SHOWN,
        now=context.now(),
        names={each.uid: each.name for each in scopes.tenants} if scopes.has_all_tenants else {},
        assignees=await find_people(context, request) if request.may("quarantine.act") else (),
    )


def _search_for(ggrid: str, campaign: Campaign) -> Search:
    """The search for the same messages, within the time that they came in."""
    text = f"campaign:{ggrid}"
    if campaign.members:
        first, last = campaign.members[-1].completed, campaign.members[0].completed + 1_000
        text += f" after:{_write_time(first)} before:{_write_time(last)}"
    return Search("/messages", text, EVERYTHING, Form({"q": (text,)}))


def _write_time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _name_outcome(member: CampaignMember, states: Mapping[str, str]) -> str:
    """What became of a message: held mail is still held, was released or deleted, or its time was over."""
    state = states.get(member.ggrid)
    if state is not None:
        return "held" if state == "releasing" else state
    return BECAME.get(member.decision, "no longer held")


def _find_reached(members: Iterable[CampaignMember], became: Mapping[str, str]) -> People:
    reached, all_of_them = dict[str, None](), dict[str, None]()
    for member in members:
        for address in member.recipients:
            all_of_them[address] = None
            if became[member.ggrid] in REACHED:
                reached[address] = None
    return People(tuple(reached), tuple(address for address in all_of_them if address not in reached))


def _count_values(members: Iterable[CampaignMember]) -> list[tuple[str, str, list[tuple[str, int]]]]:
    """The most frequent values: what they are, the field of a search for them, and the values with their numbers."""
    everyone = list(members)
    counted: dict[tuple[str, str], Counter[str]] = {
        ("Senders", "from"): Counter(each.sender for each in everyone if each.sender),
        ("Sender domains", "domain"): Counter(each.sender.rpartition("@")[2] for each in everyone if each.sender),
        ("Link hosts", "host"): Counter(host for each in everyone for host in each.hosts),
        ("Files", "file"): Counter(name for each in everyone for name in dict(each.files)),
        ("Subjects", "subject"): Counter(each.subject for each in everyone if each.subject),
    }
    return [(title, field, values.most_common(TOP)) for (title, field), values in counted.items() if values]


PAGES: tuple[WebRoute, ...] = (PageRoute("GET", "/campaigns/{ggrid}", show_campaign, "messages.read", "search"),)
