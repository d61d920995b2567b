// A conversation with the served model: what is sent, and the pieces that come back. No text of it is markup.

/** @typedef {{ role: "user" | "assistant", text: string, tokens?: number, seconds?: number, ttft?: number, problem?: string }} Message */

/**
 * @param {string} model
 * @param {Message[]} messages
 */
export const request = (model, messages) => ({
  model,
  stream: true,
  stream_options: { include_usage: true },
  messages: messages.filter((message) => message.text).map(({ role, text }) => ({ role, content: text })),
});

/**
 * The pieces of an answer as they arrive.
 * @param {Response} answer
 * @returns {AsyncGenerator<{ text: string, tokens?: number }>}
 */
export async function* pieces(answer) {
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") return;
      const piece = JSON.parse(data);
      if (piece.error) throw new Error(piece.error.message ?? String(piece.error));
      const delta = piece.choices?.[0]?.delta ?? {};
      yield { text: delta.content ?? "", tokens: piece.usage?.completion_tokens };
    }
  }
}
