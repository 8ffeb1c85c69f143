"""An agent tried under five faults of its tools, offline: a recording answers, and nothing is paid.

The agent is plain Python, so that its answer to each fault can be read here; for one of LangChain, LlamaIndex or OpenAI
Agents only `agent` changes (`as_agent(...)` of the adapter).
"""

from toolgrade import Golden, Run, ToolCall, ToolCorrectnessMetric, ToolRecoveryMetric, evaluate, observe
from toolgrade.agents import Conversation
from toolgrade.capture import record
from toolgrade.replay import Fault, replay


@observe(tool=True)
def find_order(order: int) -> dict:
    """Look up an order in the shop."""
    raise NotImplementedError("it asks the shop's server")


@observe(tool=True)
def refund(order: int, amount: float) -> str:
    """Refund an order."""
    raise NotImplementedError("it pays")


@observe
def answer(_question: str) -> str:
    """Refund order 18; try a tool again once, and believe no price that cannot be."""
    try:
        order = _twice(find_order, order=18)
        if not order.get("price"):
            return "I do not know what order 18 has cost."
        _twice(refund, order=18, amount=order["price"])
    except (TimeoutError, ConnectionError):
        return "The shop does not answer; please try again later."
    return f"{order['price']} EUR are on their way."


def _twice(tool, **arguments):  # noqa: ANN001, ANN003, ANN202 - any tool
    try:
        return tool(**arguments)
    except TimeoutError:
        return tool(**arguments)


async def agent(question: str, conversation: Conversation) -> Run:
    """Answer one question, recorded."""
    with record(conversation=conversation.id) as recorder:
        answer(question)
    return recorder.last_run


RECORDED = [
    ToolCall(name="find_order", input_parameters={"order": 18}, output={"item": "lamp", "price": 20}),
    ToolCall(name="refund", input_parameters={"order": 18, "amount": 20}, output="refunded"),
]
FAULTS = {
    "no fault": [],
    "the shop is late once": [Fault("find_order", error="TimeoutError: no answer", times=1)],
    "the shop is down": [Fault("find_order", error="ConnectionError: refused")],
    "the order has no price": [Fault("find_order", output={"item": "lamp"})],
    "the payment is late once": [Fault("refund", error="TimeoutError: no answer", times=1)],
    "the payment is refused": [Fault("refund", error="ConnectionError: refused")],
}
GOLDENS = [Golden(input="Refund order 18.", expected_tools=[ToolCall(name="find_order"), ToolCall(name="refund")])]
METRICS = [ToolCorrectnessMetric(threshold=1), ToolRecoveryMetric()]

for name, faults in FAULTS.items():
    with replay([Run(input="Refund order 18.", calls=RECORDED)], faults=faults) as tape:
        report = evaluate(goldens=GOLDENS, agent=agent, metrics=METRICS, show_progress=False)
    case = report.cases[0]
    scores = ", ".join(f"{one.metric} {'-' if one.score is None else f'{one.score:g}'}" for one in case.results)
    print(f"{name}: {case.case.actual_output}\n  {scores}; {tape}")
