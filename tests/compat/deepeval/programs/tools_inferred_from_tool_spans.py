# tools_called of a span are taken from its tool spans; the expected ones come from the golden
from deepeval.dataset import EvaluationDataset, Golden, get_current_golden
from deepeval.evaluate import AsyncConfig
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import ToolCall, ToolCallParams
from deepeval.tracing import observe, update_current_span, update_current_trace

by_name = ToolCorrectnessMetric(threshold=0.9)
by_arguments = ToolCorrectnessMetric(threshold=0.9, evaluation_params=[ToolCallParams.INPUT_PARAMETERS])
with_output = ToolCorrectnessMetric(threshold=0.9, evaluation_params=[ToolCallParams.OUTPUT])


@observe(type="tool", description="Finds flights")
def search_flights(origin: str, destination: str, day: str = "monday"):
    return [{"id": "LX1"}]


@observe(type="tool")
def book_flight(flight_id: str):
    return {"booked": flight_id}


@observe(type="agent", available_tools=["search_flights", "book_flight"], metrics=[by_name, by_arguments, with_output])
def travel(question: str):
    flights = search_flights("ZRH", destination="OSL")
    booking = book_flight(flight_id=flights[0]["id"])
    golden = get_current_golden()
    update_current_span(input=question, output=str(booking), expected_tools=golden.expected_tools)
    update_current_trace(input=question, output=str(booking))
    return booking


exact = Golden(
    input="Oslo, please",
    expected_tools=[
        ToolCall(name="search_flights", input_parameters={"origin": "ZRH", "destination": "OSL", "day": "monday"}, output=[{"id": "LX1"}]),
        ToolCall(name="book_flight", input_parameters={"flight_id": "LX1"}, output={"booked": "LX1"}),
    ],
)
different = Golden(
    input="Oslo on friday",
    expected_tools=[
        ToolCall(name="search_flights", input_parameters={"origin": "ZRH", "destination": "OSL", "day": "friday"}, output=[]),
        ToolCall(name="book_flight", input_parameters={"flight_id": "LX1"}, output={"booked": "LX1"}),
    ],
)
scores = {}
for golden in (exact, different):
    dataset = EvaluationDataset(goldens=[golden])
    for each in dataset.evals_iterator(async_config=AsyncConfig(run_async=False)):
        assert get_current_golden() is not None
        travel(each.input)
    scores[golden.input] = [by_name.score, round(by_arguments.score, 4), with_output.score]

assert scores["Oslo, please"] == [1.0, 1.0, 1.0]
assert scores["Oslo on friday"] == [1.0, round((2 / 3 + 1) / 2, 4), 0.5]
assert get_current_golden() is None
print("OK")
