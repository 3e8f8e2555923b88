// check_llama_cpp.mjs IDS N FILE...: greedy tokens by llama.cpp through node-llama-cpp, which must be installed under the current folder.
// Prints "FILE id,id,..." a line.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const { getLlama } = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
const [ids, n, ...files] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 2, logLevel: process.env.VERBOSE ? 'debug' : 'error' });
for (const modelPath of files) {
    try {
        const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
        const context = await model.createContext({ contextSize: 128, sequences: 1, threads: 2, flashAttention: false });
        const out = [];
        for await (const token of context.getSequence().evaluate(ids.split(',').map(Number), { temperature: 0, yieldEogToken: true })) {
            out.push(token);
            if (out.length >= Number(n)) break;
        }
        console.log(modelPath, out.join(','));
        await context.dispose();
        await model.dispose();
    } catch (error) {
        console.log(modelPath, 'refused: ' + error.message.split('\n')[0]);
    }
}
process.exit(0);
