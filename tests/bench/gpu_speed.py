"""What `scripts/gpu-check speed` measures and what it makes of it: training steps beside PyTorch's of the same shape and
bytes of state, and the products and kernels of a step beside the device's rates."""
import dataclasses
import json
import math
import pathlib
import re
import statistics

HERE = pathlib.Path(__file__).resolve().parent
# Dense TFLOP/s in 16 bits with fp32 sums, by what the device's name contains: vendors' figures.
PEAKS = {'B200': 2250, 'H200': 989, 'GH200': 989, 'H100 PCIe': 756, 'H100': 989, 'A100': 312, 'L40S': 362, 'RTX 4090': 165}
STEPS = 10


@dataclasses.dataclass
class Shape:
    name: str
    batch: int  # sequences of a micro-batch
    accum: int  # micro-batches of a step
    length: int
    ours: tuple = ()
    torch: tuple = ()
    least_gib: int = 0  # of the device's memory
    steps: int = STEPS
    weights: str = 'fp32'  # PyTorch's kind of state; of bf16 its gradients are too, where ours are fp32
    seconds: int = 120  # that a program may take

    @property
    def config(self):
        return self.name.removesuffix('-bf16-state')


SHAPES = [
    Shape('gpt2-124m', 64, 1, 1024, (), ('--batch', 64), seconds=60),
    Shape('gpt2-1558m', 16, 1, 1024, (), ('--batch', 16, 8, '--compile', 'parts'), 70),
    Shape('llama-8b', 1, 16, 2048,
          ('--bf16.bf16_master_weights_and_grads', 'false', '--bf16.bf16_optimizer_states', 'false'),
          ('--batch', 1, '--accum', 16, '--recompute', '--compile', 'parts'), 120, 3),
    # Half a million tokens a step, as an update over all parameters takes its time.
    Shape('llama-8b-bf16-state', 4, 64, 2048,
          ('--activation_checkpointing.mode', 'none'),
          ('--batch', 2, '--accum', 128, '--compile', 'parts'), 120, 2, 'bf16', 400),
]
FIRST = SHAPES[0]
COPY_RATE = 0.85  # the aim's part of it for kernels that are bound by memory
SDPA = 'flash', 'cudnn'  # PyTorch's kinds of attention that can be the fastest


@dataclasses.dataclass
class Variant:
    """Of the first shape's training, and by which fraction its loss and gradient norm may differ after the same steps."""
    name: str
    flags: tuple
    loss: float
    grad_norm: float


VARIANTS = [
    Variant('without graphs', ('--hardware.cuda_graphs', 'false'), 1e-3, 0.02),
    Variant('without cuDNN', ('--hardware.cudnn', 'false'), 1e-3, 0.02),
    # Other tokens are drawn.
    Variant('vocabulary 50304', ('--model.vocab_size', 50304), 0.02, 0.2),
    Variant('vocabulary 50304, cuDNN in any order', ('--model.vocab_size', 50304, '--hardware.cudnn_deterministic', 'false'), 0.02, 0.2),
]


@dataclasses.dataclass
class Aim:
    """One of docs/performance.md: what must be reached on the GPU whose name contains `gpu`."""
    what: str
    least: float
    figure: callable  # of what summary() returns; None if it was not measured
    form: str
    gpu: str = ''


def of_model(name, key):
    return lambda found: next((model[key] for model in found['models'] if model['model'] == name), None)


AIMS = [
    *(Aim(f'{name}: tokens per second', least, of_model(name, 'tok_s'), '{:.0f}', 'H200') for name, least in (
        ('gpt2-124m', 620e3), ('gpt2-1558m', 57e3), ('llama-8b', 9.9e3), ('llama-8b-bf16-state', 13.2e3))),
    *(Aim(f"{name}: times PyTorch's rate", 1.1, of_model(name, 'ratio'), '{:.2f}') for name in ('gpt2-124m', 'gpt2-1558m', 'llama-8b')),
    Aim('kernels that take 0.5 % of a step or more: of the copy rate, the slowest', COPY_RATE,
        lambda found: min((kernel['of_copy_rate'] for kernel in found['kernels'] if kernel['share'] >= 0.005), default=None), '{:.0%}'),
]


# ---- what is run ----

class Commands:
    """Lists of checks; `check` makes one of its name, command, seconds and judge."""

    def __init__(self, programs, gpu, python, check):
        self.programs, self.gpu, self.python, self.check = programs, gpu, python, check
        self.dtype = 'bf16' if gpu.capability >= 8 else 'fp16'

    def bench(self, what, shape, steps, name, judge, flags=()):
        return self.check(name, [
            self.programs / 'hgtrain', 'bench', what, '--device', 'cuda', '--dtype', self.dtype, '--json', '--steps', steps,
            '--shape', self.programs / f'configs/{shape.config}.json', '--train_batch_size', shape.batch * shape.accum,
            '--train_micro_batch_size_per_gpu', shape.batch, '--training.seq_length', shape.length, *shape.ours, *flags],
            shape.seconds, judge)

    def train(self, shapes, turn=''):
        return [self.bench('train', shape, shape.steps, f'train {shape.name}{turn}', json_figures) for shape in shapes]

    def ops(self, shapes):
        return [self.bench('ops', shape, 3, f'ops {shape.name}', json_figures) for shape in shapes]

    def variants(self):
        return [self.bench('train', FIRST, FIRST.steps, f'train {FIRST.name} {variant.name}', close_to_first(variant), variant.flags)
                for variant in VARIANTS]

    def torch(self, shape, *flags, name=''):
        return [self.check(f'PyTorch {shape.name}{name}', [
            self.python, HERE / 'torch_gpu.py', '--model', shape.config, '--weights', shape.weights, '--steps', shape.steps,
            '--peak', peak_of(self.gpu.name) or 1, *shape.torch, *flags], 120, best_variant)]

    def turns(self):
        """The first shape's training between PyTorch's."""
        return [check for kind in SDPA for check in self.torch(FIRST, '--sdpa', kind, name=f' {kind}')
                + self.train([FIRST], f' after {kind}')]

    def others(self):
        fitting = [shape for shape in SHAPES[1:] if self.gpu.gib >= shape.least_gib]
        return [check for shape in fitting for check in self.train([shape]) + self.ops([shape]) + self.torch(shape)]


def peak_of(device):
    """TFLOP/s; None if it is not known."""
    return next((peak for name, peak in PEAKS.items() if re.search(rf'\b{name}\b', device)), None)


# ---- what it gave ----

def json_figures(text, status, _=None):
    found = re.search(r'^\{.*^\}', text, re.M | re.S)  # beside what the program may say on stderr
    if status != 0 or not found:
        return {'passed': False}
    figures = json.loads(found[0])
    # What cuDNN should have computed was computed by our own kernels, of all shapes or of one.
    missing = figures.get('attention') or ''
    if '(no cuDNN' in missing and 'too old' not in missing or ', without cuDNN: ' in text:
        return {'figures': figures, 'passed': False, 'why': 'FAILED: attention ran without cuDNN'}
    return {'figures': figures}


def close_to_first(variant):
    def judge(text, status, results):
        result = json_figures(text, status)
        first = results.get(f'train {FIRST.name}', {}).get('figures')
        if 'figures' not in result:
            return result
        if not first:
            return {**result, 'passed': False, 'not_run': True, 'why': f'not compared, because "train {FIRST.name}" has no figures'}
        ours, its = result['figures']['last_step'], first['last_step']
        may_differ = {'step': 0, 'loss': variant.loss, 'grad_norm': variant.grad_norm}
        result['differences'] = {key: difference(ours[key], its[key]) for key in may_differ}
        wrong = [f'{key} {ours[key]}, not {its[key]} within {most:.1%}' for key, most in may_differ.items() if result['differences'][key] > most]
        return {**result, 'passed': False, 'why': f'FAILED: {" and ".join(wrong)}'} if wrong else result
    return judge


def difference(one, other):
    """As a fraction; JSON has null for what is not finite."""
    return abs(one / other - 1) if one and other else math.inf


def best_variant(text, status, _=None):
    """Of PyTorch's lines the fastest, also if there was no time for all; it is no failure if there is no PyTorch, or no room."""
    if "No module named 'torch'" in text:
        return {'passed': False, 'not_run': True, 'why': 'not run: this Python has no torch (--python)'}
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{') and line.endswith('}')]
    timed = [line for line in lines if 'tok_s' in line]
    result = {'figures': max(timed, key=lambda line: line['tok_s']), 'timed': timed} if timed else {}
    if status == 'timed out':
        return {**result, 'not_run': True, 'why': f'not finished: {len(timed)} timed so far'}
    if status == 0 and not timed:
        return {'passed': False, 'not_run': True, 'why': f'not run: {lines[-1].get("error") if lines else "it printed nothing"}'}
    return result


def mfu(bench, tok_s, peak):
    """As torch_gpu.py counts it: 6 FLOPs a parameter that is multiplied and token, attention in full."""
    model, length = bench['model'], bench['seq_length']
    rows = length if model['model_type'] == 'gpt2' else model['vocab_size']
    flops = (6 * (bench['parameters'] - rows * model['hidden_size'])
             + 12 * model['num_hidden_layers'] * model['hidden_size'] * length)
    return peak and flops * tok_s / peak / 1e12


def summary(results, gpu):
    """Of all that was measured so far."""
    figures = {name: result['figures'] for name, result in results.items() if 'figures' in result}
    peak = peak_of(gpu.name)
    found = {'gpu': gpu.name, 'models': [], 'variants': [], 'gaps': [], 'products': [], 'steps_products': [], 'attention': [], 'kernels': []}

    def model_row(name, turns, torch):
        tok_s = statistics.median(turn['tokens_per_sec']['median'] for turn in turns)
        return {'model': name, 'ms': statistics.median(turn['step_ms']['median'] for turn in turns), 'tok_s': tok_s,
                'mfu': mfu(turns[0], tok_s, peak), 'gib': turns[0]['peak_rss_bytes'] / 2 ** 30, 'torch_tok_s': torch.get('tok_s'),
                'torch_mfu': peak and torch.get('mfu'), 'torch_gib': torch.get('peak_gib'),
                'ratio': tok_s / torch['tok_s'] if torch else None, 'torch_sdpa': torch.get('sdpa'), 'attention': turns[0].get('attention')}
    for shape in SHAPES:
        turns = [figures[name] for name in figures if re.fullmatch(rf'train {shape.name}( after \w+)?', name)]
        torchs = [figures[name] for name in figures if re.fullmatch(rf'PyTorch {shape.name}( \w+)?', name)]
        ops = figures.get(f'ops {shape.name}')
        if turns:
            row = model_row(shape.name, turns, max(torchs, key=lambda line: line['tok_s'], default={}))
            found['models'].append(row)
            if ops:
                found['gaps'].append({'model': shape.name, 'step_ms': row['ms'], 'ops_ms': ops['ops_ms'], 'gap_ms': row['ms'] - ops['ops_ms']})
            found['products'] += [{'model': shape.name, **product, 'ms_per_step': product['calls_per_step'] * product['ms']['median']}
                                  for product in turns[0]['products']]
        for op in ops['ops'] if ops else []:
            if op['op'].startswith('attention'):
                heads = ops['model']['num_attention_heads']
                found['attention'].append({'model': shape.name, 'shape': f'{ops["micro_batch_size"]} x {ops["seq_length"]}, {heads} heads of '
                                           f'{ops["model"]["hidden_size"] // heads}', **op})
            elif 'flops_per_sec' in op:
                found['steps_products'].append({'model': shape.name, **op})
            elif 'bytes_per_sec' in op:
                found['kernels'].append({'model': shape.name, 'op': op['op'], 'calls_per_step': op['calls_per_step'],
                                         'ms_per_step': op['ms_per_step'], 'bytes_per_sec': op['bytes_per_sec'],
                                         'of_copy_rate': op['of_ceiling'], 'share': op['share'],
                                         'verdict': 'reached' if op['of_ceiling'] >= COPY_RATE else 'missed'})
    for variant in [None, *VARIANTS]:
        name = f'train {FIRST.name}' + (f' {variant.name}' if variant else '')
        if name in figures:
            found['variants'].append({'variant': variant.name if variant else 'as configured', 'ms': figures[name]['step_ms']['median'],
                                      **figures[name]['last_step'], 'differences': results[name].get('differences', {}),
                                      'attention': figures[name].get('attention')})
    found['aims'] = [verdict(aim, found) for aim in AIMS]
    return found


def verdict(aim, found):
    figure = aim.figure(found)
    said = 'not measured' if figure is None or aim.gpu not in found['gpu'] else 'reached' if figure >= aim.least else 'missed'
    return {'aim': aim.what, 'least': aim.form.format(aim.least), 'figure': None if figure is None else aim.form.format(figure),
            'of': aim.gpu, 'verdict': said}


def tables(found):
    """For each list, its columns: heading, key, format of the value."""
    def backend(text):
        return (text or '-').removeprefix('attention backend: ')

    def rows(title, key, *columns):
        lines = [[title, *(heading for heading, _, _ in columns[1:])]]
        for row in found[key]:
            values = [(value(row) if callable(value) else row.get(value), form) for _, value, form in columns]
            lines.append(['-' if value is None else form.format(value) for value, form in values])
        widths = [max(map(len, column)) for column in zip(*lines)]
        return '\n'.join('  '.join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)

    def tera(row):
        return row['flops_per_sec'] / 1e12 if 'flops_per_sec' in row else None
    return '\n\n'.join([
        rows('model', 'models', ('', 'model', '{}'), ('ms', 'ms', '{:.1f}'), ('tok/s', 'tok_s', '{:.0f}'), ('MFU', 'mfu', '{:.1%}'),
             ('GiB', 'gib', '{:.1f}'), ('PyTorch', 'torch_tok_s', '{:.0f}'), ('its MFU', 'torch_mfu', '{:.1%}'),
             ('its GiB', 'torch_gib', '{:.1f}'), ('its SDPA', 'torch_sdpa', '{}'), ('ratio', 'ratio', '{:.2f}x'),
             ('attention', lambda row: backend(row['attention']), '{}')),
        rows(FIRST.name, 'variants', ('', 'variant', '{}'), ('ms', 'ms', '{:.1f}'), ('step', 'step', '{}'), ('loss', 'loss', '{:.5f}'),
             ('differs', lambda row: row['differences'].get('loss'), '{:.1e}'), ('gradient norm', 'grad_norm', '{:.5f}'),
             ('differs', lambda row: row['differences'].get('grad_norm'), '{:.1e}'),
             ('attention', lambda row: backend(row['attention']), '{}')),
        rows('step', 'gaps', ('', 'model', '{}'), ('ms', 'step_ms', '{:.2f}'), ('sum of its ops', 'ops_ms', '{:.2f}'),
             ('gap', 'gap_ms', '{:.2f}')),
        rows('product', 'products', ('', 'product', '{}'), ('m x n x k', lambda row: f'{row["m"]} x {row["n"]} x {row["k"]}', '{}'),
             ('calls a step', 'calls_per_step', '{:g}'), ('ms a step', 'ms_per_step', '{:.3f}'), ('TFLOP/s', tera, '{:.0f}'),
             ('in', 'model', '{}')),
        rows('product within the step', 'steps_products', ('', 'op', '{}'), ('GFLOP', lambda row: row['flops'] / 1e9, '{:.0f}'),
             ('calls a step', 'calls_per_step', '{:g}'), ('ms a step', 'ms_per_step', '{:.3f}'), ('TFLOP/s', tera, '{:.0f}'), ('in', 'model', '{}')),
        rows('attention', 'attention', ('', 'op', '{}'), ('shape', 'shape', '{}'), ('calls a step', 'calls_per_step', '{:g}'),
             ('ms a step', 'ms_per_step', '{:.3f}'), ('TFLOP/s', tera, '{:.0f}'), ('in', 'model', '{}')),
        rows('kernel', 'kernels', ('', 'op', '{}'), ('calls a step', 'calls_per_step', '{:g}'), ('ms a step', 'ms_per_step', '{:.3f}'),
             ('GB/s', lambda row: row['bytes_per_sec'] / 1e9, '{:.0f}'), ('of copies', 'of_copy_rate', '{:.0%}'),
             (f'{COPY_RATE:.0%}', 'verdict', '{}'), ('in', 'model', '{}')),
        rows('aim', 'aims', ('', 'aim', '{}'), ('at least', 'least', '{}'), ('on', 'of', '{}'), ('figure', 'figure', '{}'),
             ('verdict', 'verdict', '{}')),
    ])


def report(results, gpu, file):
    found = summary(results, gpu)
    file.write_text(json.dumps(found, indent=2))
    print(tables(found), flush=True)
