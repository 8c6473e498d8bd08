#!/usr/bin/env python3
"""hgtrain's CPU training step and PyTorch's, alternately: the tokens a second of each, their ratio, and the share of
the GEMM limit.

    python3 tests/bench/against_torch.py build/hgtrain --shape small --threads 1 [--dtype bf16] [--rounds 5]
    python3 tests/bench/against_torch.py build/hgtrain --shape small --workers 2

Needs a Python that has torch. PyTorch's side is the same GPT-2 with scaled_dot_product_attention and fused AdamW, in
bf16 by autocast, as it is and under torch.compile: the better one counts. The GEMM limit is what the step's weight
products take alone, each at the better of our gemm's and torch.mm's median. With two workers, of one thread each,
PyTorch's are DistributedDataParallel over Gloo, and hgtrain's are also compared with one worker. Medians over the
rounds; the machine should do nothing else.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# layers, width, heads, vocabulary, sequence length, micro-batch: those of `hgtrain bench train`
SHAPES = {'small': (6, 384, 6, 256, 256, 8), '124m': (12, 768, 12, 50257, 256, 2)}


def torch_model(torch, shape):
    nn, F = torch.nn, torch.nn.functional
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
            # GPT-2's. PyTorch's own of 1 makes many probabilities denormal, which Intel's CPUs are very slow with.
            for embedding in (self.tokens, self.positions):
                nn.init.normal_(embedding.weight, std=0.02)

        def forward(self, tokens, targets):
            x = self.tokens(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            logits = self.norm(x) @ self.tokens.weight.t()
            return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    return Gpt()


def product_seconds(torch, product, dtype):
    """One weight product, its operands laid out as PyTorch's own step has them."""
    m, n, k = product['m'], product['n'], product['k']
    matrix = lambda rows, columns: torch.randn(rows, columns).to(torch.bfloat16 if dtype == 'bf16' else torch.float32)
    a, b = {'fwd': lambda: (matrix(m, k), matrix(n, k).t()), 'dgrad': lambda: (matrix(m, k), matrix(k, n)),
            'wgrad': lambda: (matrix(k, n).t(), matrix(k, m))}[product['product'].split()[-1]]()
    times = []
    for _ in range(6):
        start = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def contender(args):
    """Reads lines of JSON: a number of steps to train, answered by the seconds of the median one; or products."""
    os.environ['OMP_NUM_THREADS'] = str(args.threads)
    import torch
    torch.set_num_threads(args.threads)
    _, _, _, vocabulary, length, batch = SHAPES[args.shape]
    model = torch_model(torch, args.shape)
    if args.workers > 1:
        torch.distributed.init_process_group('gloo', init_method='file://' + args.meet, rank=args.rank,
                                             world_size=args.workers)
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    forward = torch.compile(model) if args.compiled else model

    def step():
        stream = torch.randint(0, vocabulary, (batch, length + 1))
        start = time.perf_counter()
        with torch.autocast('cpu', torch.bfloat16, enabled=args.dtype == 'bf16'):
            loss = forward(stream[:, :-1].contiguous(), stream[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - start

    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, int):
            answer = statistics.median(step() for _ in range(asked))
        else:
            answer = [product_seconds(torch, product, args.dtype) for product in asked]
        print(json.dumps(answer), flush=True)


class Torch:
    """PyTorch's processes, which wait while they are not asked."""

    def __init__(self, folder, compiled):
        self.name = 'compiled' if compiled else 'as it is'
        extra = ['--contender', '--meet', os.path.join(folder, 'meet' + str(compiled)), *(['--compiled'] * compiled)]
        workers = int(ARGS.workers)
        self.ranks = [subprocess.Popen([sys.executable, *sys.argv, *extra, '--rank', str(rank)], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE) for rank in range(workers)]
        self.seconds = []

    def ask(self, what):
        for rank in self.ranks:
            rank.stdin.write(json.dumps(what) + '\n')
            rank.stdin.flush()
        return [json.loads(rank.stdout.readline()) for rank in self.ranks][0]

    def train(self):
        self.seconds.append(self.ask(ARGS.steps))

    def peak_bytes(self):
        status = open(f'/proc/{self.ranks[0].pid}/status')
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith('VmHWM'))

    def end(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()


def bench_train():
    """Tokens a second of one worker, and what its bench reports besides."""
    done = subprocess.run([ARGS.program, 'bench', 'train', '--shape', ARGS.shape, '--threads', str(ARGS.threads),
                           '--dtype', ARGS.dtype, '--steps', str(ARGS.steps), '--json'],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


class Job:
    """`hgtrain train` on text of its own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / 'text.txt').write_text('a quick brown fox and some lazy dogs\n' * 20000)
        subprocess.run([ARGS.program, 'data', 'prepare', '--input', 'text.txt', '--out', 'data'], cwd=folder, check=True,
                       capture_output=True)
        layers, width, heads, vocabulary, length, batch = SHAPES[ARGS.shape]
        self.config = {
            'train_micro_batch_size_per_gpu': batch, 'gradient_clipping': 0.0,
            'optimizer': {'type': 'AdamW', 'params': {'lr': 3e-4, 'betas': [0.9, 0.95], 'weight_decay': 0.1}},
            'model': {'model_type': 'gpt2', 'n_layer': layers, 'n_embd': width, 'n_head': heads, 'n_positions': length,
                      'vocab_size': max(vocabulary, 257), 'embd_pdrop': 0, 'resid_pdrop': 0, 'attn_pdrop': 0},
            'training': {'train_iters': ARGS.steps + 2, 'seq_length': length}, 'data': {'train_data_path': 'data'},
            'hardware': {'device': 'cpu', 'threads': ARGS.threads}, 'bf16': {'enabled': ARGS.dtype == 'bf16'}}
        self.runs = 0

    def run(self, workers):
        """(Tokens a second, seconds from the command to the first step less a steady one.)"""
        self.runs += 1
        run = self.folder / f'run{self.runs}'
        config = self.config | {'train_batch_size': self.config['train_micro_batch_size_per_gpu'] * workers}
        (self.folder / 'config.json').write_text(json.dumps(config))
        start = time.time()
        job = subprocess.Popen([ARGS.program, '--config', 'config.json', '--run_dir', run, '--num_workers', str(workers)],
                               cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        first = None
        while job.poll() is None:
            if first is None and (run / 'metrics.jsonl').exists() and (run / 'metrics.jsonl').stat().st_size:
                first = time.time() - start
            time.sleep(0.002)
        steps = [json.loads(line) for line in (run / 'metrics.jsonl').read_text().splitlines()]
        seconds = statistics.median(step['step_ms'] for step in steps[2:]) / 1e3
        subprocess.run(['rm', '-r', run], check=True)
        return steps[0]['tokens'] / seconds, first - seconds


def spread(values):
    return f'{statistics.median(values):.2f} ({min(values):.2f} - {max(values):.2f})'


def compare(folder):
    contenders = [Torch(folder, compiled) for compiled in (False, True)[:1 + ARGS.compile]]
    job = Job(folder) if ARGS.workers > 1 else None
    for torch in contenders:
        torch.ask(3)
    ours, alone, starts, limits = [], [], [], []
    for _ in range(ARGS.rounds):
        if job:
            alone.append(job.run(1)[0])
            rate, start = job.run(ARGS.workers)
            ours.append(rate)
            starts.append(start)
        else:
            report = bench_train()
            ours.append(report['tokens_per_sec']['median'])
            theirs = contenders[0].ask(report['products'])
            limit = sum(p['calls_per_step'] * min(p['ms']['median'] / 1e3, seconds)
                        for p, seconds in zip(report['products'], theirs))
            limits.append(limit / (report['step_ms']['median'] / 1e3))
        for torch in contenders:
            torch.train()
    best = min(contenders, key=lambda torch: statistics.median(torch.seconds))
    _, _, _, _, length, batch = SHAPES[ARGS.shape]
    rates = [ARGS.workers * batch * length / seconds for seconds in best.seconds]
    print(f'{ARGS.shape} {ARGS.dtype}, {ARGS.workers} x {ARGS.threads} threads: hgtrain {statistics.median(ours):.0f} tok/s, '
          f'PyTorch {best.name} {statistics.median(rates):.0f} tok/s; '
          f'ratio {spread([a / b for a, b in zip(ours, rates)])}')
    if job:
        print(f'{ARGS.workers} workers against one: {spread([a / b for a, b in zip(ours, alone)])}; '
              f'from the command to the first step less a steady one: {spread(starts)} s')
    else:
        print(f'{statistics.median(limits):.0%} of the GEMM limit; '
              f'peak {report["peak_rss_bytes"] / 2**20:.0f} MiB against {best.peak_bytes() / 2**20:.0f}')
    for torch in contenders:
        torch.end()


def main():
    global ARGS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', help='the built hgtrain', type=os.path.abspath)
    parser.add_argument('--shape', choices=SHAPES, default='small')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--workers', type=int, default=1)
    parser.add_argument('--dtype', choices=('fp32', 'bf16'), default='fp32')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--steps', type=int, default=6)
    parser.add_argument('--no-compile', dest='compile', action='store_false', help='PyTorch as it is only')
    for hidden in ('--contender', '--compiled'):
        parser.add_argument(hidden, action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--meet', help=argparse.SUPPRESS)
    parser.add_argument('--rank', type=int, help=argparse.SUPPRESS)
    ARGS = parser.parse_args()
    if ARGS.contender:
        return contender(ARGS)
    if not importlib.util.find_spec('torch'):
        parser.error(f'{sys.executable} has no torch: use a Python that has it')
    with tempfile.TemporaryDirectory() as folder:
        compare(folder)


if __name__ == '__main__':
    main()
