"""The two processes of a federation, put together from their parts; they run until told to stop."""

import threading
from collections.abc import Callable
from pathlib import Path

from fedforest.errors import ConfigurationError
from fedforest.runtime.coordinator_service import CoordinatorService
from fedforest.runtime.event_log import Format, start_logging
from fedforest.runtime.federation import start_workers
from fedforest.runtime.homes import (
    CoordinatorSettings,
    PartySettings,
    find_data,
    load_credentials,
    load_keys,
    read_settings,
)
from fedforest.runtime.party_service import PartyService

# A signal that reached another thread, as it may while the process is stopped, is only heard when
# the main thread wakes up.
_SIGNAL_SECONDS = 0.5


def serve_coordinator(
    home: Path, stop: threading.Event, form: Format, say: Callable[[str], None]
) -> None:
    """Accept parties and users, carry out orders, resume what was left unfinished."""
    from fedforest.transport.grpc_channel import Limits  # noqa: PLC0415 - grpc is an extra
    from fedforest.transport.grpc_coordinator import GrpcHub  # noqa: PLC0415 - grpc is an extra

    start_logging(form)
    settings = read_settings(home, "coordinator.toml", CoordinatorSettings)
    limits = Limits(patience_seconds=settings.patience_seconds)
    with start_workers(settings.threads) as workers:
        service: CoordinatorService | None = None

        def serve_client(identity: object, request: bytes):  # type: ignore[no-untyped-def] # as the hub wants it
            assert service is not None
            return service.serve(identity, request)

        hub = GrpcHub(
            load_credentials(home), settings.address, serve_client=serve_client, limits=limits
        )
        service = CoordinatorService(home, hub, workers, wait_seconds=settings.patience_seconds)
        with hub:
            service.start()
            say(f"listening at {hub.address}")
            while not stop.wait(_SIGNAL_SECONDS):
                pass
            service.close()


def serve_party(
    home: Path, stop: threading.Event, form: Format, say: Callable[[str], None]
) -> None:
    """Stay connected and answer."""
    from fedforest.transport.grpc_party import GrpcLink  # noqa: PLC0415 - grpc is an extra

    start_logging(form)
    settings = read_settings(home, "party.toml", PartySettings)
    credentials = load_credentials(home)
    identity = credentials.identity
    if identity.role != "party":
        raise ConfigurationError(f"{identity} is no party's certificate; this folder is a party's")
    keys = load_keys(home, identity.name, dict(settings.pins))
    with start_workers(settings.threads) as workers:
        service = PartyService(
            home,
            keys,
            find_data(home, settings),
            workers,
            gives_shares=settings.complete_model,
        )
        link = GrpcLink(settings.coordinator, credentials, identity.name, service.answer)
        say(f"party {identity.name} answers the coordinator at {settings.coordinator}")
        try:
            link.run(stop)
        finally:
            service.close()
