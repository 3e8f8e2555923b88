"""Trains the level-21 GPT (102,415 weights) on two-digit addition and writes model.pt. Needs torch. About ten minutes on one core.

models/level21.pt is what this wrote. Of the 10,000 sums of two numbers from 0 to 99, shuffled by a fixed seed, 8,500 are learned, 500
choose the epoch that is kept, and the last 1,000 (tests/data/level21/unseen_sums.txt) are never seen.
"""

import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ITOS = ['<pad>', '<bos>', '<eos>'] + list('0123456789') + ['+', '=']
STOI = {c: i for i, c in enumerate(ITOS)}
MAXLEN = 11


class RMSNorm(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.gain = nn.Parameter(torch.ones(d))

    def forward(s, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-06) * s.gain


class Attn(nn.Module):
    def __init__(s, d, h):
        super().__init__()
        s.h = h
        s.qkv = nn.Linear(d, 3 * d)
        s.out = nn.Linear(d, d)

    def forward(s, x):
        B, L, d = x.shape
        dk = d // s.h
        q, k, v = s.qkv(x).chunk(3, -1)
        sh = lambda t: t.reshape(B, L, s.h, dk).permute(0, 2, 1, 3)
        q, k, v = sh(q), sh(k), sh(v)
        m = torch.full((L, L), float('-inf')).triu(1)
        a = torch.softmax(q @ k.mT / math.sqrt(dk) + m, -1)
        return s.out((a @ v).permute(0, 2, 1, 3).reshape(B, L, d))


class Block(nn.Module):
    def __init__(s, d, h, f):
        super().__init__()
        s.norm1 = RMSNorm(d)
        s.attn = Attn(d, h)
        s.norm2 = RMSNorm(d)
        s.ffn = nn.Sequential(nn.Linear(d, f), nn.ReLU(), nn.Linear(f, d))

    def forward(s, x):
        x = x + s.attn(s.norm1(x))
        return x + s.ffn(s.norm2(x))


class GPT(nn.Module):
    def __init__(s, d=64, heads=4, layers=2, d_ff=256):
        super().__init__()
        s.tok = nn.Embedding(15, d)
        s.pos = nn.Embedding(MAXLEN, d)
        s.blocks = nn.ModuleList((Block(d, heads, d_ff) for _ in range(layers)))
        s.norm = RMSNorm(d)
        s.head = nn.Linear(d, 15)

    def forward(s, x):
        h = s.tok(x) + s.pos.weight[:x.shape[1]]
        for b in s.blocks:
            h = b(h)
        return s.head(s.norm(h))


torch.set_num_threads(1)


def enc(a, b):
    """<bos>a+b=c<eos>, filled up with <pad>."""
    ids = [1] + [STOI[c] for c in f'{a}+{b}={a + b}'] + [2]
    return ids + [0] * (MAXLEN - len(ids))


pairs = [(a, b) for a in range(100) for b in range(100)]
random.Random(0).shuffle(pairs)
tr, va, te = pairs[:8500], pairs[8500:9000], pairs[9000:]


def xy(p):
    """One sum as input and target: only what follows the = is learned."""
    ids = enc(*p)
    x, y = ids[:-1], ids[1:]
    eq = x.index(14)
    return x, [-100 if t < eq or v == 0 else v for t, v in enumerate(y)]


X, Y = map(torch.tensor, zip(*[xy(p) for p in tr]))


@torch.no_grad()
def acc(m, ps):
    """The share of sums whose greedy answer is right."""
    by = {}
    for p in ps:
        by.setdefault(len(f'{p[0]}+{p[1]}='), []).append(p)
    ok = 0
    for L, g in by.items():
        x = torch.tensor([[1] + [STOI[c] for c in f'{a}+{b}='] for a, b in g])
        outs = [[] for _ in g]
        done = [False] * len(g)
        for _ in range(4):
            n = m(x)[:, -1].argmax(-1)
            x = torch.cat([x, n[:, None]], 1)
            for i, t in enumerate(n.tolist()):
                if t in (0, 2):
                    done[i] = True
                elif not done[i]:
                    outs[i].append(ITOS[t])
        ok += sum((''.join(o) == str(a + b) for o, (a, b) in zip(outs, g)))
    return ok / len(ps)


torch.manual_seed(0)
m = GPT()
opt = torch.optim.Adam(m.parameters(), lr=0.001)
best = -1
t0 = time.time()
for ep in range(1, 121):
    perm = torch.randperm(len(X))
    tot = 0
    for g in opt.param_groups:
        g['lr'] = 0.001 if ep < 80 else 0.0003
    for i in range(0, len(X), 64):
        j = perm[i:i + 64]
        loss = F.cross_entropy(m(X[j]).reshape(-1, 15), Y[j].reshape(-1), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
    v = acc(m, va)
    if v > best:
        best = v
        torch.save({'config': {'d': 64, 'heads': 4, 'layers': 2, 'd_ff': 256}, 'state': m.state_dict()}, 'model.pt')
        u = acc(m, te)
        print(ep, tot / 133, 'val', v, 'unseen', u, f'{time.time() - t0:.0f}s', flush=True)
