"""The nodes page: every node of the deployment with the version that it runs, its health and its last error, and the
published versions. Publishing itself is done on the command line, where the files are."""

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.store.publishing import NodeRecord
from gatepost.web.context import WebContext
from gatepost.web.page_responses import html_response
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

# A node says every two seconds how it is.
SILENT_MILLISECONDS = 15_000
VERSIONS = 20


async def show_nodes(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show all nodes and the last versions."""
    rollout = await context.store.rollout()
    nodes, moment = await context.store.node_records(), context.now()
    return html_response(
        context.renderer.render(
            "nodes.html",
            request,
            here="/nodes",
            rollout=rollout,
            nodes=[(node, _health(node, moment)) for node in nodes],
            versions=await context.store.version_history(VERSIONS),
            now=moment,
        )
    )


def _health(node: NodeRecord, moment: int) -> str:
    return "silent" if moment - node.seen > SILENT_MILLISECONDS else node.detail.state


PAGES: tuple[WebRoute, ...] = (PageRoute("GET", "/nodes", show_nodes, "system.read"),)
