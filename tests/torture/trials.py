"""The trials of scripts/torture: what they do, and how their result is judged."""
import json
import os
import re
import shutil
import signal
import subprocess

import faults
import supervisor

STEPS = 12
CONFIG = {
    'train_batch_size': 4,
    'train_micro_batch_size_per_gpu': 1,
    'gradient_clipping': 1.0,
    'optimizer': {'type': 'AdamW', 'params': {'lr': 3e-3}},
    'model': {'model_type': 'gpt2', 'n_embd': 16, 'n_layer': 1, 'n_head': 2, 'n_positions': 16},
    'training': {'train_iters': STEPS, 'seq_length': 16, 'seed': 7, 'eval_interval': 4, 'eval_iters': 1},
    'data': {'train_data_path': 'data/text', 'valid_fraction': 0.1},
    'hardware': {'threads': 1}}
SAVED_METRICS = ('step', 'loss', 'grad_norm', 'lr', 'tokens', 'consumed_samples', 'eval_loss')
# Of an error that is hgtrain's own: none may come of what happens to a file, a process or a limit.
INTERNAL = re.compile(r'internal error|a bug in hgtrain|terminate called|what\(\):|std::|basic_string|Sanitizer')
DOCUMENTED = {0, 2, 3, 4, 5, 6, 75}


class Failed(Exception):
    """A trial found a fault of hgtrain's."""


def require(holds, text):
    if not holds:
        raise Failed(text)


def files_below(folder):
    """relative name -> bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob('*')) if p.is_file()}


def differing(files, expected):
    """The names of what is missing, too much or different; at most a few."""
    names = [name for name in sorted(files.keys() | expected.keys()) if files.get(name) != expected.get(name)]
    return ', '.join(name + (' (missing)' if name not in files else ' (not in the undisturbed run)' if name not in expected else '')
                     for name in names[:5])


class Work:
    """What a trial does, and how its result is judged."""

    def __init__(self, hgtrain, shared):
        self.hgtrain, self.shared = hgtrain, shared

    def run(self, folder, arguments, fault=None, events=None):
        """Runs hgtrain in the folder, with the fault, which becomes an event."""
        outcome = None
        try:
            outcome = supervisor.supervise([self.hgtrain, *arguments], folder, *([fault.decide, fault.attach] if fault else []))
        except supervisor.Hang as e:
            raise Failed(f'it hangs; living: {e}') from None
        finally:
            if fault:
                events.append(f'{fault}: {outcome.status if outcome else "hangs"}')
        self.check_manners(outcome, fault)
        return outcome

    def undisturbed(self, folder, arguments):
        """Runs without a fault; the places where one could befall it."""
        recorder = faults.Recorder()
        outcome = supervisor.supervise([self.hgtrain, *arguments], folder, recorder.decide)
        require(outcome.status == 0, f'the undisturbed run fails\n{outcome.err}')
        return recorder.places

    @staticmethod
    def check_manners(outcome, fault):
        status, kind = outcome.status, fault.kind if fault else 'none'
        allowed = set(DOCUMENTED)
        if kind in ('kill', 'cut'):
            allowed |= {-signal.SIGKILL, 128 + signal.SIGKILL}
        elif kind == 'stop':
            allowed |= {-signal.SIGTERM, 128 + signal.SIGTERM}  # before hgtrain takes signals; of `data prepare`
        elif fault and fault.name == 'mmap' and fault.role.startswith('rank'):
            allowed |= {128 + signal.SIGSEGV}  # oneDNN does not look whether it was given memory
        require(status in allowed, f'exit status {status}')
        internal = INTERNAL.search(outcome.err)
        require(not internal, f'it says "{internal and internal[0]}"')
        if status not in (0, 75) and kind in ('error', 'half') and not fault.is_of_output:
            require('error: ' in outcome.err or 'failed' in outcome.err, f'exit status {status} without an error message')
        require(not outcome.left_over, f'left over: {", ".join(outcome.left_over)}')


class Training(Work):
    run_dir = 'run'
    steps = STEPS

    def __init__(self, hgtrain, shared, name, workers, save_interval, keep_last_n, *more):
        super().__init__(hgtrain, shared)
        self.name, self.keep_last_n = name, keep_last_n
        arguments = ['--config', 'config.json', '--run_dir', self.run_dir, '--device', 'cpu', '--num_workers', str(workers)]
        self.arguments = [*arguments, '--checkpoint.save_interval', str(save_interval),
                          '--checkpoint.keep_last_n', str(keep_last_n), *more]
        folder = shared / name
        self.lay_out(folder)
        # What every trial must end as, with the checkpoint of every step; then the calls that the trial's own runs make.
        self.undisturbed(folder, [*arguments, '--checkpoint.save_interval', '1', '--checkpoint.keep_last_n', '0'])
        self.metrics, self.files = self.metrics_of(folder), files_below(folder / self.run_dir)
        shutil.rmtree(folder / self.run_dir)
        self.places = [self.undisturbed(folder, self.arguments)]
        shutil.rmtree(folder / self.run_dir / f'checkpoints/step_{STEPS:08}')
        self.places.append(self.undisturbed(folder, [*self.arguments, '--resume', 'auto']))
        self.check_end(folder)

    def lay_out(self, folder):
        folder.mkdir()
        shutil.copytree(self.shared / 'data', folder / 'data')
        (folder / 'config.json').write_text(json.dumps(CONFIG))

    def metrics_of(self, folder):
        path = folder / self.run_dir / 'metrics.jsonl'
        lines = path.read_text().splitlines() if path.exists() else []
        return [{name: value for name, value in json.loads(line).items() if name in SAVED_METRICS} for line in lines]

    choose = staticmethod(faults.choose)

    def draw(self, drawn):
        """The faults of the first run and of those that resume it."""
        return [self.choose(drawn, self.places[min(run, 1)]) for run in range(drawn.choice((1, 1, 2, 3)))]

    def every(self):
        """Each fault in turn, of the first run and of one that resumes."""
        renames = self.places[0]['kill', 'rank 0', 'rename']
        yield from ([fault] for fault in faults.every(self.places[0]))
        for fault in faults.every(self.places[1]):
            yield [faults.Fault('kill', 'rank 0', 'rename', renames[len(renames) // 2], killed=['launcher']), fault]

    def trial(self, folder, planned, events):
        self.lay_out(folder)
        self.disturb(folder, planned, events)

    def disturb(self, folder, planned, events):
        announced, shared_memory = set(), set()
        for fault in planned:
            arguments = self.arguments + (['--resume', 'auto'] if events else [])
            outcome = self.run(folder, arguments, fault, events)
            shared_memory |= set(outcome.shared_memory)
            self.after(folder)
            self.check_saved(folder, outcome, announced)
        outcome = self.run(folder, [*self.arguments, '--resume', 'auto'])
        require(outcome.status == 0, f'it does not resume: exit status {outcome.status}')
        self.check_saved(folder, outcome, announced)
        self.check_end(folder)
        shared_memory = [p for p in sorted(shared_memory) if os.path.isfile(p)]
        require(not shared_memory, f'left in memory: {", ".join(shared_memory)}')

    def after(self, folder):
        """What must be done for the next run to start."""

    def check_saved(self, folder, outcome, announced):
        """What was announced as saved by now is there, unless newer ones took its place; every checkpoint is whole."""
        announced |= {int(step) for step in re.findall(r'^save +\d+/\d+ .*/step_(\d+)$', outcome.err, re.M)}
        state = folder / self.run_dir / 'run.json'
        last = json.loads(state.read_text())['last_checkpoint'] if state.exists() and state.stat().st_size else None
        if last:
            announced.add(int(last.rsplit('_', 1)[1]))
        present = {int(p.name[5:]) for p in (folder / self.run_dir / 'checkpoints').glob('step_????????')}
        if outcome.status == 0:
            announced.add(self.steps)
        for step in announced:
            newer = sum(other > step for other in present)
            require(step in present or (self.keep_last_n > 0 and newer >= self.keep_last_n), f'step {step} was announced as saved, and is gone')
        for step in present:
            name = f'checkpoints/step_{step:08}/'
            expected = {n[len(name):]: data for n, data in self.files.items() if n.startswith(name)}
            differs = differing(files_below(folder / self.run_dir / name), expected)
            require(not differs, f'the checkpoint of step {step} differs: {differs}')

    def check_end(self, folder):
        metrics = self.metrics_of(folder)
        require(metrics == self.metrics, 'the metrics differ from step ' + str(
            next((a['step'] for a, b in zip(metrics, self.metrics) if a != b), min(len(metrics), len(self.metrics)))))
        # A kill between a save and the removal of checkpoints/origin takes the branch back to its beginning.
        is_ours = lambda name: not re.match(r'checkpoints/step_\d+(\.superseded)?/|metrics\.superseded(-\d+)?\.jsonl$', name)
        too_much = {n for n in files_below(folder / self.run_dir) if is_ours(n)} - {n for n in self.files if is_ours(n)}
        require(not too_much, f'left in the run folder: {", ".join(sorted(too_much))}')


class PowerCuts(Training):
    """The run folder lies on a file system of its own, ext4 in a file, that loses its power."""
    run_dir = 'disk/run'

    @staticmethod
    def mount(folder):
        subprocess.run(['mount', '-o', 'loop', folder / 'image', folder / 'disk'], check=True)

    @staticmethod
    def unmount(folder):
        subprocess.run(['umount', folder / 'disk'], check=True)

    choose = staticmethod(faults.choose_cut)

    def run(self, folder, arguments, fault=None, events=None):
        if fault:
            fault.disk = folder / 'disk'
        return super().run(folder, arguments, fault, events)

    def after(self, folder):
        self.unmount(folder)
        self.mount(folder)

    def lay_out(self, folder):
        super().lay_out(folder)
        (folder / 'disk').mkdir()

    def trial(self, folder, planned, events):
        self.lay_out(folder)
        with (folder / 'image').open('wb') as image:
            image.truncate(32 << 20)
        subprocess.run(['mkfs.ext4', '-q', '-F', folder / 'image'], check=True)
        self.mount(folder)
        try:
            self.disturb(folder, planned, events)
        finally:
            self.unmount(folder)


class Preparing(Work):
    name = 'prepare'

    def __init__(self, hgtrain, shared):
        super().__init__(hgtrain, shared)
        words = 'the quick brown fox jumps over a lazy dog while seven small birds sing in an old tree'.split()
        lines = [' '.join(words[(i * i + 3 * j) % len(words)] for j in range(12)) for i in range(100)]
        (shared / 'text').mkdir()
        (shared / 'text/a.txt').write_text('\n'.join(lines))
        (shared / 'text/b.jsonl').write_text(''.join(json.dumps({'text': line}) + '\n' for line in lines))
        self.places = self.undisturbed(shared, self.arguments())
        self.files = files_below(shared / 'data')

    def arguments(self):
        return ['data', 'prepare', '--input', str(self.shared / 'text'), '--out', 'data/text']

    def draw(self, drawn):
        return [faults.choose(drawn, self.places) for _ in range(drawn.choice((1, 1, 2)))]

    def every(self):
        return ([fault] for fault in faults.every(self.places))

    def trial(self, folder, planned, events):
        folder.mkdir()
        for fault in planned:
            before = files_below(folder / 'data')
            outcome = self.run(folder, self.arguments(), fault, events)
            left = files_below(folder / 'data')
            if left == self.files:
                return
            require(outcome.status != 0, f'it succeeded with other data: {differing(left, self.files)}')
            new = left.keys() - before.keys()
            if fault.lasts and fault.name in ('openat', 'getdents64'):  # no folder can be emptied then
                new = {name for name in new if '.tokenizer' not in name}
            require(not new or fault.kind == 'kill' or fault.name in ('unlink', 'unlinkat', 'flock', 'newfstatat'), f'it failed and left {", ".join(sorted(new))}')
        outcome = self.run(folder, self.arguments())
        if 'replace it with --overwrite' in outcome.err:  # killed between the files getting their names
            outcome = self.run(folder, [*self.arguments(), '--overwrite'])
        require(outcome.status == 0, f'it does not prepare any more: exit status {outcome.status}')
        left = files_below(folder / 'data')
        require(left == self.files, f'the data differ: {differing(left, self.files)}')


def works(hgtrain, folder):
    """What trials are drawn from; the data and the undisturbed runs are made in the folder. The last two make every call that
    the others make, but for a restart."""
    preparing = Preparing(hgtrain, folder)
    return [Training(hgtrain, folder, 'one worker', 1, 3, 0), Training(hgtrain, folder, 'two workers', 2, 3, 0),
            Training(hgtrain, folder, 'restarting', 2, 3, 0, '--max_restarts', '1'),
            Training(hgtrain, folder, 'pruning', 2, 2, 2), preparing]


def works_without_power(hgtrain, folder):
    Preparing(hgtrain, folder)
    return [PowerCuts(hgtrain, folder, 'power cuts', 2, 2, 2)]
