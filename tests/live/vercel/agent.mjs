// An agent of the Vercel AI SDK with a scripted model, which writes its spans to traces.jsonl as OTLP in JSON.
//
// docs/live.md shows the same; .ci/live-matrix runs it where Node is at hand.

import { appendFileSync } from 'node:fs';
import { NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { JsonTraceSerializer } from '@opentelemetry/otlp-transformer';
import { generateText, stepCountIs, tool } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { z } from 'zod';

const file = {
  export(spans, done) {
    appendFileSync('traces.jsonl', Buffer.from(JsonTraceSerializer.serializeRequest(spans)).toString() + '\n');
    done({ code: 0 });
  },
  shutdown: async () => {},
};
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(file)] }).register();

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const replies = [
  {
    finishReason: { unified: 'tool-calls' },
    usage,
    warnings: [],
    content: [{ type: 'tool-call', toolCallId: 'c1', toolName: 'add', input: '{"a":1,"b":2}' }],
  },
  { finishReason: { unified: 'stop' }, usage, warnings: [], content: [{ type: 'text', text: 'It is 3.' }] },
];
const { text } = await generateText({
  model: new MockLanguageModelV3({ doGenerate: async () => replies.shift() }),
  prompt: 'What is 1 + 2?',
  tools: { add: tool({ inputSchema: z.object({ a: z.number(), b: z.number() }), execute: async ({ a, b }) => a + b }) },
  stopWhen: stepCountIs(5),
  experimental_telemetry: { isEnabled: true },
});
console.log(text);
