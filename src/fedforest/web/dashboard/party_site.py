"""The pages of a party, for the owner of its data: their addresses, and what handlers share.

They read the party's own folder, as its commands do, and are for nobody else: values of columns
and names that no other role may see are shown here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.routing import Route

from fedforest.runtime.membership.service_tokens import FILE, ServiceTokens
from fedforest.runtime.party.catalogue.catalogue import Catalogue
from fedforest.web.api.guard import Rates
from fedforest.web.dashboard import party_data_pages, party_policy_pages, party_record_pages
from fedforest.web.dashboard.assets_folder import send_asset
from fedforest.web.dashboard.layout import NavigationItem, Site, explain_refusal
from fedforest.web.dashboard.login import FAILURES_PER_SECOND, Login, make_login_endpoints
from fedforest.web.dashboard.sessions import Sessions
from fedforest.web.dashboard.visits import Reception

_NAVIGATION = (
    NavigationItem("/data", "Data"),
    NavigationItem("/policy", "Policy"),
    NavigationItem("/records", "Runs"),
    NavigationItem("/ledger", "Ledger"),
)


@dataclass(frozen=True)
class PartySite:
    """What the pages of a party share."""

    frame: Site
    sessions: Sessions
    home: Path
    name: str
    catalogue: Catalogue


def make_party_routes(home: Path, name: str, memory_limit: int | None) -> Sequence[Route]:
    """Return the addresses of all pages of a party."""
    frame = Site(name, "party", _NAVIGATION)
    site = PartySite(frame, Sessions(), home, name, Catalogue(home, memory_limit))
    reception = Reception(site.sessions, explain_refusal, site)
    tokens = ServiceTokens(home / FILE)
    login = Login(
        frame,
        site.sessions,
        tokens,
        lambda _: True,  # whoever has a token of the party's folder
        Rates(FAILURES_PER_SECOND),
        lambda _: None,
    )
    page, action = reception.page, reception.action
    endpoints = {
        **make_login_endpoints(login, reception),
        ("/", "GET"): page(party_data_pages.show_data_sets),
        ("/data", "GET"): page(party_data_pages.show_data_sets),
        ("/data/{name}", "GET"): page(party_data_pages.show_data_set),
        ("/data/{name}/profile", "GET"): page(party_data_pages.show_profile),
        ("/policy", "GET"): page(party_policy_pages.show_policy),
        ("/policy", "POST"): action(party_policy_pages.save_policy),
        ("/policy/check", "POST"): action(party_policy_pages.check_policy, scope="read"),
        ("/records", "GET"): page(party_record_pages.show_records),
        ("/records/{run}", "GET"): page(party_record_pages.show_record),
        ("/records/{run}/trees/{tree}", "GET"): page(party_record_pages.send_own_tree),
        ("/ledger", "GET"): page(party_record_pages.show_ledger),
    }
    pages = [Route(path, endpoint, methods=[how]) for (path, how), endpoint in endpoints.items()]
    return [*pages, Route("/static/{digest}/{name}", send_asset)]
