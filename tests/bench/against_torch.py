#!/usr/bin/env python3
"""hgtrain's CPU training step beside PyTorch's, in turns: the tokens a second of each, and their ratio.

    python3 tests/bench/against_torch.py build/hgtrain --shape small --threads 1 [--dtype bf16] [--rounds 5]

Needs a Python that has torch. PyTorch's side is the same GPT-2 with scaled_dot_product_attention and fused AdamW, in
bf16 by autocast; --compile adds torch.compile. Medians over the rounds; the machine should do nothing else.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# layers, width, heads, vocabulary, sequence length, micro-batch: those of `hgtrain bench train`
SHAPES = {'small': (6, 384, 6, 256, 256, 8), '124m': (12, 768, 12, 50257, 256, 2)}


def contender(shape, threads, dtype, compiled):
    """Reads a number of steps a line, trains them, and prints the seconds of the median one."""
    os.environ['OMP_NUM_THREADS'] = str(threads)
    import torch
    from torch import nn
    from torch.nn import functional as F
    torch.set_num_threads(threads)
    layers, width, heads, vocabulary, length, batch = SHAPES[shape]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (t.view(batch, length, heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate='tanh'))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)

        def forward(self, tokens, targets):
            x = self.tokens(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            logits = self.norm(x) @ self.tokens.weight.t()
            return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
    forward = torch.compile(model) if compiled else model

    def step():
        stream = torch.randint(0, vocabulary, (batch, length + 1))
        start = time.perf_counter()
        with torch.autocast('cpu', torch.bfloat16, enabled=dtype == 'bf16'):
            loss = forward(stream[:, :-1].contiguous(), stream[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - start

    for line in sys.stdin:
        print(statistics.median(step() for _ in range(int(line))), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', help='the built hgtrain')
    parser.add_argument('--shape', choices=SHAPES, default='small')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--dtype', choices=('fp32', 'bf16'), default='fp32')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--steps', type=int, default=6)
    parser.add_argument('--compile', action='store_true')
    parser.add_argument('--contender', action='store_true', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        return contender(args.shape, args.threads, args.dtype, args.compile)

    torch = subprocess.Popen([sys.executable, *sys.argv, '--contender'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)

    def torch_seconds(steps):
        torch.stdin.write(f'{steps}\n')
        torch.stdin.flush()
        return float(torch.stdout.readline())

    _, _, _, _, length, batch = SHAPES[args.shape]
    ours, theirs, limits = [], [], []
    torch_seconds(3)
    for _ in range(args.rounds):
        done = subprocess.run([args.program, 'bench', 'train', '--shape', args.shape, '--threads', str(args.threads),
                               '--dtype', args.dtype, '--steps', str(args.steps), '--json'],
                              check=True, capture_output=True, text=True)
        report = json.loads(done.stdout)
        ours.append(report['tokens_per_sec']['median'])
        limits.append(report['share_of_gemm_limit'])
        theirs.append(batch * length / torch_seconds(args.steps))
    peak = next(int(line.split()[1]) * 1024 for line in open(f'/proc/{torch.pid}/status') if line.startswith('VmHWM'))
    torch.stdin.close()
    torch.wait()
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    print(f'{args.shape} {args.dtype}, {args.threads} thread{"s"[:args.threads > 1]}: hgtrain {statistics.median(ours):.0f}'
          f' tok/s, PyTorch {statistics.median(theirs):.0f} tok/s, ratio {ratio:.2f}'
          f' ({min(a / b for a, b in zip(ours, theirs)):.2f}-{max(a / b for a, b in zip(ours, theirs)):.2f});'
          f' {statistics.median(limits):.0%} of the GEMM limit;'
          f' peak {report["peak_rss_bytes"] / 2**20:.0f} MiB against {peak / 2**20:.0f}')


if __name__ == '__main__':
    main()
