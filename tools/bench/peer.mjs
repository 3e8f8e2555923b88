// peer.mjs MODEL THREADS WORK...: llama.cpp's speed through node-llama-cpp, which must be installed under the current folder.
// WORK: pN prefill of N tokens; dB decode of B sequences after prompts of 128 tokens. Prints "WORK tokens/s" lines, one a repeat.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const { getLlama } = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
const [modelPath, threads, ...work] = process.argv.slice(2);
const REPEATS = Number(process.env.REPEATS ?? 3), PROMPT = 128, STEPS = Number(process.env.STEPS ?? 32);

const llama = await getLlama({ gpu: false, build: 'never', maxThreads: Number(threads), logLevel: process.env.VERBOSE ? 'debug' : 'error' });
if (process.env.VERBOSE) console.error(llama.systemInfo);
const model = await llama.loadModel({ modelPath, useMmap: process.env.MMAP !== 'off', gpuLayers: 0 });
const seconds = () => performance.now() / 1000;
const ids = (n, from) => Array.from({ length: n }, (_, i) => 300 + ((i * 7919 + from) % 31000));

async function prefill(n) {
    const context = await model.createContext({ contextSize: n + 8, batchSize: 512, threads: Number(threads), sequences: 1, flashAttention: false });
    const sequence = context.getSequence();
    await sequence.evaluateWithoutGeneratingNewTokens(ids(Math.min(n, 64), 7));
    for (let r = 0; r < REPEATS; r++) {
        await sequence.clearHistory();
        const start = seconds();
        await sequence.evaluateWithoutGeneratingNewTokens(ids(n, r));
        console.log(`p${n} ${n / (seconds() - start)}`);
    }
    await context.dispose();
}

async function decode(B) {
    const context = await model.createContext({ contextSize: PROMPT + STEPS * (REPEATS + 1) + 16, batchSize: 512, threads: Number(threads), sequences: B, flashAttention: false });
    const sequences = Array.from({ length: B }, () => context.getSequence());
    const streams = [];
    for (let b = 0; b < B; b++) {
        await sequences[b].evaluateWithoutGeneratingNewTokens(ids(PROMPT - 1, b));
        streams.push(sequences[b].evaluate([500 + b], { temperature: 0, yieldEogToken: true }));
    }
    // Greedy, STEPS tokens of every sequence at once: the context puts them into one batch.
    for (let r = -1; r < REPEATS; r++) {
        const start = seconds();
        await Promise.all(streams.map(async (s) => { for (let i = 0; i < STEPS; i++) await s.next(); }));
        if (r >= 0) console.log(`d${B} ${(B * STEPS) / (seconds() - start)}`);
    }
    await context.dispose();
}

for (const w of work) {
    if (w[0] === 'p') await prefill(Number(w.slice(1)));
    else await decode(Number(w.slice(1)));
}
process.exit(0);
