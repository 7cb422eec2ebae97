"""`fedforest renew`: keep a user's certificate valid while nothing else is asked for."""

from __future__ import annotations

from typing import Annotated

import typer

from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal


def renew_certificate(
    profile: Profile = "",
    now: Annotated[bool, typer.Option("--now", help="Renew it though it is not due.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Renew your certificate if a third of its life, or less, is left; for a daily line of cron.

    Every command and every application renews it when it connects. One that asks for nothing for
    weeks needs this command: an expired certificate cannot be renewed. It fails if the certificate
    was due and could not be renewed.

    Example: fedforest renew

    Example: fedforest renew --profile clinics --quiet
    """
    from fedforest.runtime.client.connection import renew_profile
    from fedforest.runtime.membership.profiles import choose_profile

    credentials, is_new = renew_profile(choose_profile(profile or None), anyway=now)
    moments = {
        "expires": credentials.expires.isoformat(),
        "renewal_due": credentials.renewal_due.isoformat(),
    }
    if as_json:
        known = {"name": credentials.identity.name, "renewed": is_new}
        Terminal(as_json).show_json(known | moments)
        return
    expires, due = (text[:16].replace("T", " ") + " UTC" for text in moments.values())
    what = "is renewed" if is_new else "was not due"
    said = f"the certificate of {credentials.identity.name} {what}: good until {expires}"
    Terminal(quiet=quiet).say(f"{said}, to be renewed from {due} on")
