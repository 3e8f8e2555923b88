// make_gguf.mjs SHAPE TYPE OUT: a GGUF of random weights in one of the two shapes that are compared, `small` or `mid`; TYPE f16 or q8_0.
// Only its sizes matter: the numbers are one random block, repeated, scaled so that activations stay near 1.
import { openSync, writeSync, closeSync } from 'node:fs';

const [shapeName, type, path] = process.argv.slice(2);
const shapes = {
    small: { layers: 12, d: 768, heads: 12, kv: 4, ff: 2048, vocab: 32000 },
    mid: { layers: 22, d: 2048, heads: 32, kv: 4, ff: 5632, vocab: 32000 },
};
const s = shapes[shapeName];
if (!s || !['f16', 'q8_0'].includes(type) || !path) {
    console.error('usage: make_gguf.mjs small|mid f16|q8_0 OUT');
    process.exit(2);
}
const headDim = s.d / s.heads, F32 = 0, F16 = 1, Q8_0 = 8;
const matrixType = type === 'f16' ? F16 : Q8_0;

// Tensors: [name, type, [columns, rows]].
const tensors = [];
const matrix = (name, cols, rows) => tensors.push([name, matrixType, [cols, rows]]);
const gain = (name, n) => tensors.push([name, F32, [n]]);
matrix('token_embd.weight', s.d, s.vocab);
gain('output_norm.weight', s.d);
matrix('output.weight', s.d, s.vocab);
for (let l = 0; l < s.layers; l++) {
    const b = `blk.${l}.`;
    gain(b + 'attn_norm.weight', s.d);
    matrix(b + 'attn_q.weight', s.d, s.heads * headDim);
    matrix(b + 'attn_k.weight', s.d, s.kv * headDim);
    matrix(b + 'attn_v.weight', s.d, s.kv * headDim);
    matrix(b + 'attn_output.weight', s.heads * headDim, s.d);
    gain(b + 'ffn_norm.weight', s.d);
    matrix(b + 'ffn_gate.weight', s.d, s.ff);
    matrix(b + 'ffn_up.weight', s.d, s.ff);
    matrix(b + 'ffn_down.weight', s.ff, s.d);
}
const tensorBytes = ([, t, dims]) => {
    const n = dims.reduce((a, b) => a * b, 1);
    return t === F32 ? n * 4 : t === F16 ? n * 2 : (n / 32) * 34;
};

// Header, in pieces.
const parts = [];
const u32 = (v) => { const b = Buffer.alloc(4); b.writeUInt32LE(v); parts.push(b); };
const u64 = (v) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(v)); parts.push(b); };
const f32 = (v) => { const b = Buffer.alloc(4); b.writeFloatLE(v); parts.push(b); };
const text = (t) => { const b = Buffer.from(t); u64(b.length); parts.push(b); };
let nKeys = 0;
const kvU32 = (k, v) => { nKeys++; text(k); u32(4); u32(v); };
const kvF32 = (k, v) => { nKeys++; text(k); u32(6); f32(v); };
const kvText = (k, v) => { nKeys++; text(k); u32(8); text(v); };
const kvArray = (k, itemType, items, put) => { nKeys++; text(k); u32(9); u32(itemType); u64(items.length); items.forEach(put); };

kvText('general.architecture', 'llama');
kvText('general.name', `random ${shapeName} ${type}`);
kvU32('general.file_type', type === 'f16' ? 1 : 7);
kvU32('llama.context_length', 8192);
kvU32('llama.embedding_length', s.d);
kvU32('llama.block_count', s.layers);
kvU32('llama.feed_forward_length', s.ff);
kvU32('llama.rope.dimension_count', headDim);
kvU32('llama.attention.head_count', s.heads);
kvU32('llama.attention.head_count_kv', s.kv);
kvF32('llama.attention.layer_norm_rms_epsilon', 1e-5);
kvU32('llama.vocab_size', s.vocab);
const tokens = ['<unk>', '<s>', '</s>'], types = [2, 3, 3];
for (let i = 0; i < 256; i++) { tokens.push(`<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`); types.push(6); }
while (tokens.length < s.vocab) { tokens.push(`\u2581w${tokens.length}`); types.push(1); }
kvText('tokenizer.ggml.model', 'llama');
kvArray('tokenizer.ggml.tokens', 8, tokens, text);
kvArray('tokenizer.ggml.scores', 6, tokens.map((_, i) => -i), f32);
kvArray('tokenizer.ggml.token_type', 5, types, u32);
kvU32('tokenizer.ggml.bos_token_id', 1);
kvU32('tokenizer.ggml.eos_token_id', 2);
const keys = parts.splice(0);

let offset = 0;
for (const t of tensors) {
    text(t[0]); u32(t[2].length); t[2].forEach(u64); u32(t[1]); u64(offset);
    offset += Math.ceil(tensorBytes(t) / 32) * 32;
}
const infos = parts.splice(0);
parts.push(Buffer.from('GGUF')); u32(3); u64(tensors.length); u64(nKeys);
let header = Buffer.concat([...parts, ...keys, ...infos]);
header = Buffer.concat([header, Buffer.alloc((32 - (header.length % 32)) % 32)]);

// One block of numbers for each type and width.
let seed = 12345;
const random = () => { seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0; return seed / 4294967296 - 0.5; };
const toHalf = (x) => {
    const f = new Float32Array([x]), u = new Uint32Array(f.buffer)[0], e = ((u >>> 23) & 255) - 112;
    return e <= 0 ? (u >>> 16) & 0x8000 : ((u >>> 16) & 0x8000) | (e << 10) | ((u >>> 13) & 0x3ff);
};
const halfBlock = (scale) => {
    const b = Buffer.alloc(1 << 20);
    for (let i = 0; i < b.length; i += 2) b.writeUInt16LE(toHalf(random() * scale), i);
    return b;
};
const q8Block = (scale) => {
    const b = Buffer.alloc(34 * 32768);
    for (let i = 0; i < b.length; i += 34) {
        b.writeUInt16LE(toHalf(scale / 254), i);
        for (let k = 0; k < 32; k++) b.writeInt8(Math.round(random() * 254), i + 2 + k);
    }
    return b;
};
const blocks = new Map();
const blockFor = (t, cols) => {
    const key = `${t} ${cols}`;
    if (!blocks.has(key)) {
        const scale = 3.4 / Math.sqrt(cols);
        let b = t === F16 ? halfBlock(scale) : t === Q8_0 ? q8Block(scale) : Buffer.alloc(4096);
        if (t === F32) for (let i = 0; i < b.length; i += 4) b.writeFloatLE(1, i);
        blocks.set(key, b);
    }
    return blocks.get(key);
};
const out = openSync(path, 'w');
writeSync(out, header);
for (const t of tensors) {
    const block = blockFor(t[1], t[2][0]);
    let left = tensorBytes(t);
    while (left > 0) left -= writeSync(out, block, 0, Math.min(left, block.length));
    const pad = (32 - (tensorBytes(t) % 32)) % 32;
    if (pad) writeSync(out, Buffer.alloc(pad));
}
closeSync(out);
