import unittest

from deepeval import assert_test
from deepeval.metrics import ToolCorrectnessMetric
from deepeval.test_case import LLMTestCase, ToolCall


class ShopAgentTest(unittest.TestCase):
    def setUp(self):
        self.metric = ToolCorrectnessMetric(threshold=1.0, should_exact_match=True)

    def make(self, *called):
        return LLMTestCase(input="buy socks", actual_output="bought", tools_called=[ToolCall(name=c) for c in called], expected_tools=[ToolCall(name="cart"), ToolCall(name="pay")])

    def test_right(self):
        assert_test(self.make("cart", "pay"), [self.metric])

    def test_wrong_order(self):
        with self.assertRaises(AssertionError):
            assert_test(self.make("pay", "cart"), [self.metric])

    def test_standalone(self):
        self.metric.measure(self.make("cart"))
        self.assertEqual(self.metric.score, 0)
        self.assertFalse(self.metric.is_successful())


outcome = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromTestCase(ShopAgentTest))
assert outcome.wasSuccessful() and outcome.testsRun == 3
print("OK")
