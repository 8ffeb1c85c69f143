from deepeval.test_case import ToolCall


class SupportAgent:
    def __init__(self, prices):
        self.prices = prices
        self.calls = []

    def _call(self, tool, output, **arguments):
        self.calls.append(ToolCall(name=tool, input_parameters=arguments, output=output))
        return output

    def run(self, question):
        self.calls = []
        text = question.lower()
        item = next((name for name in self.prices if name in text), None)
        if "price" in text or "cost" in text:
            price = self._call("get_price", self.prices.get(item), item=item)
            answer = f"{price} francs"
        elif "refund" in text:
            self._call("find_order", {"id": 12}, item=item)
            self._call("refund_order", True, order_id=12)
            answer = "You get your money back."
        else:
            answer = "How can I help?"
        return answer, list(self.calls)
