"""Beginning a summary behind a client's back, at the moment at which it reads most from the provider's cache."""

from proxy.server.call import Call, Shared
from proxy.server.dispatch import REFUSED
from proxy.server.summarizer import Work


def begun(shared: Shared, call: Call) -> None:
    """Begin the summary that this call needs in the background, if it is still the one that was decided. Never raises."""
    received, need = call.later, call.ready.need
    call.later = None
    if received is None or need is None or need.now or call.status >= REFUSED:
        return
    try:
        work = work_of(shared, call)
        shared.summarizer.begin(call.exchange, need, received, call.ready.plan, call.policy, work)
    except Exception as error:  # noqa: BLE001  nobody waits for it
        shared.watch.failed("compact", error)


def work_of(shared: Shared, call: Call) -> Work:
    """What a summary for this call needs besides the request."""
    model = call.policy.compact.model
    known = shared.policies.known(call.exchange.route.upstream_name, model, "off", None) if model else None
    return Work(
        session=call.ready.anchor.session,
        count=call.scale.weigh_text,
        recall=shared.recall,
        summary_window=known.policy.window if known is not None else call.policy.window,
    )
