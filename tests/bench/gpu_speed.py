"""What `scripts/gpu-check speed` measures and what it makes of it: training steps beside PyTorch's of the same shape and
bytes of state, and the kernels of a step beside the copy rate."""
import dataclasses
import json
import pathlib
import re
import sys

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
    Shape('gpt2-124m', 64, 1, 1024, ('--model.vocab_size', 50304), ('--batch', 64)),
    Shape('gpt2-1558m', 16, 1, 1024, ('--model.vocab_size', 50304), ('--batch', 16, 8, '--compile', 'parts'), 70),
    Shape('llama-8b', 1, 16, 2048,
          ('--bf16.bf16_master_weights_and_grads', 'false', '--bf16.bf16_optimizer_states', 'false'),
          ('--batch', 1, '--accum', 16, '--recompute', '--compile', 'parts'), 120, 3),
    # Half a million tokens a step, as an update over all parameters takes its time.
    Shape('llama-8b-bf16-state', 4, 64, 2048,
          ('--activation_checkpointing.mode', 'none'),
          ('--batch', 2, '--accum', 128, '--compile', 'parts'), 120, 2, 'bf16', 400),
]


def words(*parts):
    return [str(part) for part in parts]


def ours(shape, programs, dtype):
    return words(programs / 'hgtrain', 'bench', 'train', '--device', 'cuda', '--dtype', dtype, '--json', '--steps', shape.steps,
                 *job(shape, programs))


def ops(shape, programs, dtype):
    return words(programs / 'hgtrain', 'bench', 'ops', '--device', 'cuda', '--dtype', dtype, '--json', '--steps', 3,
                 *job(shape, programs))


def job(shape, programs):
    return ('--shape', programs / f'configs/{shape.config}.json', '--train_batch_size', shape.batch * shape.accum,
            '--train_micro_batch_size_per_gpu', shape.batch, '--training.seq_length', shape.length, *shape.ours)


def torchs(shape, python, peak):
    return words(python, HERE / 'torch_gpu.py', '--model', shape.config, '--weights', shape.weights, '--steps', shape.steps,
                 '--peak', peak or 1, *shape.torch)


def peak_of(device):
    """TFLOP/s; None if it is not known."""
    return next((peak for name, peak in PEAKS.items() if re.search(rf'\b{name}\b', device)), None)


def json_figures(text, status):
    found = re.search(r'^\{.*^\}', text, re.M | re.S)  # beside what the program may say on stderr
    if status != 0 or not found:
        return {'passed': False}
    figures = json.loads(found[0])
    # What cuDNN should have computed was computed by our own kernels, of all shapes or of one.
    missing = figures.get('attention') or ''
    if '(no cuDNN' in missing and 'too old' not in missing or ', without cuDNN: ' in text:
        return {'figures': figures, 'passed': False, 'why': 'FAILED: attention ran without cuDNN'}
    return {'figures': figures}


def best_variant(text, status):
    """Of PyTorch's lines the fastest; it is no failure if there is no PyTorch, or no room."""
    if "No module named 'torch'" in text:
        return {'passed': False, 'not_run': True, 'why': 'not run: this Python has no torch (--python)'}
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{')]
    timed = [line for line in lines if 'tok_s' in line]
    if status == 0 and not timed:
        return {'passed': False, 'not_run': True, 'why': 'not run: out of memory'}
    return {'figures': max(timed, key=lambda line: line['tok_s'])} if status == 0 else {}


def mfu(bench, peak):
    """As torch_gpu.py counts it: 6 FLOPs a parameter that is multiplied and token, attention in full."""
    model, length = bench['model'], bench['seq_length']
    rows = length if model['model_type'] == 'gpt2' else model['vocab_size']
    flops = (6 * (bench['parameters'] - rows * model['hidden_size'])
             + 12 * model['num_hidden_layers'] * model['hidden_size'] * length)
    return peak and flops * bench['tokens_per_sec']['median'] / peak / 1e12


def summary(results, peak):
    """Of all that was measured so far: a row a model, and a row an op that is bound by memory, the longest first."""
    figures = {name: result['figures'] for name, result in results.items() if 'figures' in result}
    models, kernels = [], []
    for shape in SHAPES:
        bench, torch = figures.get(f'train {shape.name}'), figures.get(f'PyTorch {shape.name}', {})
        if bench:
            tok_s = bench['tokens_per_sec']['median']
            models.append({'model': shape.name, 'tok_s': tok_s, 'mfu': mfu(bench, peak), 'gib': bench['peak_rss_bytes'] / 2 ** 30,
                           'torch_tok_s': torch.get('tok_s'), 'torch_mfu': peak and torch.get('mfu'),
                           'torch_gib': torch.get('peak_gib'), 'ratio': torch and tok_s / torch['tok_s'] or None})
        for op in figures.get(f'ops {shape.name}', {}).get('ops', []):
            if 'bytes_per_sec' in op:
                kernels.append({'model': shape.name, 'op': op['op'], 'ms_per_step': op['ms_per_step'],
                                'bytes_per_sec': op['bytes_per_sec'], 'of_copy_rate': op['of_ceiling']})
    return {'models': models, 'kernels': kernels}


def table(found):
    def line(*cells):
        return '  '.join(f'{cell:<{24 if i == 0 else 12}}' for i, cell in enumerate(cells)).rstrip()

    def number(value, form='{:.0f}'):
        return '-' if value is None else form.format(value)
    lines = [line('model', 'tok/s', 'MFU', 'GiB', 'PyTorch', 'its MFU', 'its GiB', 'ratio')]
    for m in found['models']:
        lines.append(line(m['model'], number(m['tok_s']), number(m['mfu'], '{:.1%}'), number(m['gib'], '{:.1f}'),
                          number(m['torch_tok_s']), number(m['torch_mfu'], '{:.1%}'), number(m['torch_gib'], '{:.1f}'),
                          number(m['ratio'], '{:.2f}x')))
    lines.append('\n' + line('kernel', 'ms a step', 'GB/s', 'of copies', 'in'))
    for k in found['kernels']:
        lines.append(line(k['op'], number(k['ms_per_step'], '{:.3f}'), number(k['bytes_per_sec'] / 1e9),
                          number(k['of_copy_rate'], '{:.0%}'), k['model']))
    return '\n'.join(lines)


def measure(checks, python, shapes=SHAPES):
    """Runs what was not run yet; prints the table and writes speed.json."""
    name, memory, capability, _ = checks.gpu()
    peak, dtype = peak_of(name), 'bf16' if capability >= 8 else 'fp16'
    for shape in shapes:
        if memory < shape.least_gib:
            print(f'{shape.name}: left out, it takes a GPU of {shape.least_gib} GiB', flush=True)
            continue
        checks.run(f'train {shape.name}', ours(shape, checks.programs, dtype), shape.seconds, json_figures)
        checks.run(f'ops {shape.name}', ops(shape, checks.programs, dtype), shape.seconds, json_figures)
        checks.run(f'PyTorch {shape.name}', torchs(shape, python, peak), shape.seconds, best_variant)
    found = {'gpu': name, 'dtype': dtype, **summary(checks.results, peak)}
    (checks.folder / 'speed.json').write_text(json.dumps(found, indent=2))
    print(table(found), file=sys.stdout, flush=True)
