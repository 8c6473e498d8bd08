#!/usr/bin/env python3
"""PyTorch's training step on a GPU, what hgtrain's has to beat: GPT-2 and Llama shapes, SDPA, fused AdamW, torch.compile.

    python3 tests/bench/torch_gpu.py --model gpt2-124m                                   # both kinds of state
    python3 tests/bench/torch_gpu.py --model llama-8b --weights bf16 --batch 1 2 --accum 16 --recompute

Needs a Python that has torch. One JSON line for each kind of state and batch, as it is measured: of those with the
same bytes of state the one with the most tok_s counts. --weights fp32 is bf16 autocast over fp32 weights, gradients and
Adam's moments (16 bytes a parameter), bf16 has all of them in bf16 (8 bytes). tok_s is by the median of the steps,
waited for on the device, after three that warm up; mfu counts 6 FLOPs a parameter and token and causal attention in
full, as the field's tables do, against --peak. --compile parts compiles a block and the head once for all blocks, in a
fraction of the time that --compile whole takes."""
import argparse
import contextlib
import json
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

# layers, width, heads, key heads, MLP width, vocabulary, sequence length, batch
SHAPES = {
    'gpt2-124m': (12, 768, 12, 12, 3072, 50304, 1024, 64),
    'gpt2-1558m': (48, 1600, 25, 25, 6400, 50304, 1024, 16),
    'llama-8b': (32, 4096, 32, 8, 14336, 128256, 2048, 1),
    'tiny': (2, 64, 2, 2, 256, 512, 64, 2),
    'tiny-llama': (2, 64, 4, 2, 192, 512, 64, 2),
}
WARM_UP = 3
SDPA = {'flash': SDPBackend.FLASH_ATTENTION, 'cudnn': SDPBackend.CUDNN_ATTENTION}


def parse():
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument('--model', choices=SHAPES, default='gpt2-124m')
    out.add_argument('--seq', type=int, help='sequence length (default: the shape\'s)')
    out.add_argument('--batch', type=int, nargs='*', help='sequences of a micro-batch')
    out.add_argument('--accum', type=int, default=1, help='micro-batches of a step')
    out.add_argument('--weights', choices=('fp32', 'bf16'), nargs='*', default=['fp32', 'bf16'])
    out.add_argument('--recompute', action='store_true', help='every block again in the backward')
    out.add_argument('--compile', choices=('whole', 'parts', 'off'), default='whole')
    out.add_argument('--sdpa', choices=SDPA, help='the kernels of attention, which PyTorch chooses by default')
    out.add_argument('--steps', type=int, default=10)
    out.add_argument('--seconds', type=float, default=120, help='no further step after so many')
    out.add_argument('--device', default='cuda')
    out.add_argument('--peak', type=float, default=989, help='TFLOP/s of the device')
    return out.parse_args()


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Block(nn.Module):
    def __init__(self, shape, llama):
        super().__init__()
        _, width, self.heads, self.key_heads, inner, *_ = shape
        norm, bias = (nn.RMSNorm if llama else nn.LayerNorm), not llama
        self.llama, self.head_dim = llama, width // self.heads
        self.norm1, self.norm2 = norm(width, eps=1e-5), norm(width, eps=1e-5)
        self.qkv = nn.Linear(width, (self.heads + 2 * self.key_heads) * self.head_dim, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.up, self.down = nn.Linear(width, 2 * inner if llama else inner, bias=bias), nn.Linear(inner, width, bias=bias)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, -1, self.head_dim).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.key_heads, self.key_heads), 1)
        if self.llama:
            q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.key_heads)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        up = self.up(self.norm2(x))
        if not self.llama:
            return x + self.down(F.gelu(up, approximate='tanh'))
        gate, up = up.chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, shape, llama, recompute):
        super().__init__()
        layers, width, heads, _, _, vocabulary, length, _ = shape
        self.recompute = recompute
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = None if llama else nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(shape, llama) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5) if llama else nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if not llama:
            self.head.weight = self.tokens.weight
        size = width // heads
        angles = torch.outer(torch.arange(length), 1 / 5e5 ** (torch.arange(0, size, 2) / size))
        self.register_buffer('cos', angles.cos(), persistent=False)
        self.register_buffer('sin', angles.sin(), persistent=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def loss(self, x, targets):
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), targets.flatten())

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.positions:
            x = x + self.positions.weight
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        for block in self.blocks:
            x = checkpoint(block, x, cos, sin, use_reentrant=False) if self.recompute else block(x, cos, sin)
        return self.loss(x, targets)


def compiled(model, how):
    if how == 'whole':
        return torch.compile(model)
    if how == 'parts':
        for block in model.blocks:
            block.compile()
        model.loss = torch.compile(model.loss)
    return model


def step_seconds(args, forward, optimizer, batches, autocast, wait):
    """Of each step after those that warm up, and the last loss."""
    seconds, begin = [], time.time()
    for step in range(args.steps + WARM_UP):
        wait()
        start = time.perf_counter()
        for micro in range(args.accum):
            batch = batches[(step * args.accum + micro) % len(batches)]
            with torch.autocast(args.device, torch.bfloat16, enabled=autocast):
                loss = forward(batch[:, :-1], batch[:, 1:]) / args.accum
            loss.backward()
        nn.utils.clip_grad_norm_(forward.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait()
        if step >= WARM_UP:
            seconds.append(time.perf_counter() - start)
        if seconds and time.time() - begin > args.seconds:
            break
    return seconds, loss.item() * args.accum


def measure(args, weights, batch):
    llama = 'llama' in args.model
    shape = list(SHAPES[args.model])
    shape[6] = args.seq or shape[6]
    layers, width, _, _, _, vocabulary, length, _ = shape
    cuda = args.device == 'cuda'
    torch.manual_seed(1)
    torch.set_float32_matmul_precision('high')
    with torch.device(args.device):
        model = Model(shape, llama, args.recompute)
    if weights == 'bf16':
        model = model.to(torch.bfloat16)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    batches = torch.randint(0, vocabulary, (8, batch, length + 1), device=args.device)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    kernels = sdpa_kernel(SDPA[args.sdpa]) if args.sdpa else contextlib.nullcontext()
    with kernels:
        seconds, loss = step_seconds(args, compiled(model, args.compile), optimizer, batches, weights == 'fp32',
                                     torch.cuda.synchronize if cuda else lambda: None)
    tok_s = batch * length * args.accum / statistics.median(seconds)
    multiplied = parameters - (vocabulary if llama else length) * width  # all but what rows are only taken of
    return {'model': args.model, 'seq': length, 'batch': batch, 'accum': args.accum, 'weights': weights,
            'compile': args.compile, 'sdpa': args.sdpa, 'recompute': args.recompute, 'params': parameters,
            'ms': statistics.median(seconds) * 1e3, 'tok_s': tok_s,
            'mfu': (6 * multiplied + 12 * layers * width * length) * tok_s / args.peak / 1e12,
            'peak_gib': torch.cuda.max_memory_allocated() / 2 ** 30 if cuda else None, 'loss': loss,
            'torch': torch.__version__, 'device': torch.cuda.get_device_name() if cuda else args.device}


def main():
    args = parse()
    for weights in args.weights:
        for batch in args.batch or [SHAPES[args.model][-1]]:
            try:
                line = measure(args, weights, batch)
            except RuntimeError as error:  # out of memory, or no such kernels for this shape
                line = {'model': args.model, 'weights': weights, 'batch': batch, 'error': str(error)[:120]}
            print(json.dumps(line), flush=True)
            torch._dynamo.reset()
            if args.device == 'cuda':
                torch.cuda.empty_cache()


if __name__ == '__main__':
    main()
