import asyncio

from deepeval.dataset import get_current_golden
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall, ToolCallParams
from deepeval.tracing import observe, update_current_span, update_current_trace, update_llm_span, update_retriever_span

metrics_of_components = [
    ToolCorrectnessMetric(threshold=0.7),
    ToolCorrectnessMetric(threshold=0.7, evaluation_params=[ToolCallParams.INPUT_PARAMETERS]),
]


@observe(type="tool", description="Trains to a town")
def find_train(town: str, seats: int = 1):
    return f"{town}:T1"


@observe(type="tool", description="Hotels in a town")
def find_hotel(town: str):
    return f"{town}:H1"


@observe(type="retriever", embedder="words")
def guide(query: str):
    update_retriever_span(top_k=1, chunk_size=20)
    update_current_span(input=query, retrieval_context=["Graz has a hill."])
    return ["Graz has a hill."]


@observe(type="llm", model="rules-1")
def think(text: str):
    update_llm_span(input_token_count=len(text), output_token_count=2)
    steps = [word for word in text.split() if word in {"train", "hotel"}]
    return steps or ["train", "hotel"]


def _run(question):
    town = next((word for word in question.split() if word in {"Graz", "Bern", "Linz"}), "Wien")
    guide(question)
    called = []
    for step in think(question):
        if step == "train":
            called.append(ToolCall(name="find_train", input_parameters={"town": town}, output=find_train(town)))
        else:
            called.append(ToolCall(name="find_hotel", input_parameters={"town": town}, output=find_hotel(town)))
    golden = get_current_golden()
    update_current_trace(
        name="travel", tags=["suite b"], input=question, output=f"booked {town}", tools_called=called,
        expected_tools=golden.expected_tools if golden else None,
    )
    return f"booked {town}"


@observe(type="agent", available_tools=["find_train", "find_hotel"])
def plan(question: str) -> str:
    return _run(question)


@observe(type="agent", available_tools=["find_train", "find_hotel"])
async def plan_async(question: str) -> str:
    await asyncio.sleep(0.01)
    return _run(question)


@observe(type="booking step", metrics=metrics_of_components)
def book(town: str):
    ticket = find_train(town, seats=2)
    find_hotel(town=town)
    update_current_span(
        input=town,
        output=ticket,
        expected_tools=[
            ToolCall(name="find_train", input_parameters={"town": town, "seats": 1}),
            ToolCall(name="find_hotel", input_parameters={"town": town}),
        ],
    )
    return ticket
