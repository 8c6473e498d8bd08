#!/usr/bin/env python3
"""Writes tests/fixtures/optimizers.json: what other programs' optimizers and schedules compute.

    python3 tests/golden/optimizers.py        needs torch

updates     20 updates of three small tensors: by the classes of torch.optim if it has them, else by DeepSpeed's
            formulas as they stand below; all in fp64
schedules   rates by the classes of torch.optim.lr_scheduler, one after the other
"""
import functools
import json
import math
import pathlib

import torch
from torch.optim import lr_scheduler

OUT = pathlib.Path(__file__).resolve().parent.parent / 'fixtures' / 'optimizers.json'
TENSORS = [(16, True), (5, True), (3, False)]  # elements, and whether weight decay applies
STEPS, SHOWN = 20, (1, 2, 5, 10, 20)
LR, WEIGHT_DECAY = 0.02, 0.1


def start(tensor, size):
    return torch.tensor([((i * 53 + tensor * 17) % 101 - 50) / 32 for i in range(size)], dtype=torch.float64)


def gradient(tensor, size, t):
    """Every seventh element never has one."""
    return torch.tensor([0 if i % 7 == 3 else ((i * 37 + t * 101 + i * i * t + tensor * 29) % 257 - 128) / 64
                         for i in range(size)], dtype=torch.float64)


def rate(t):
    return LR * (1 + t % 3) / 2


def in_torch(optimizer, **params):
    """Parameters after each update by a class of torch.optim."""
    tensors = [torch.nn.Parameter(start(i, size)) for i, (size, _) in enumerate(TENSORS)]
    groups = [{'params': [p], 'weight_decay': WEIGHT_DECAY if decays else 0} for p, (_, decays) in zip(tensors, TENSORS)]
    optimizer = optimizer(groups, lr=LR, **params)
    for t in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group['lr'] = rate(t)
        for i, p in enumerate(tensors):
            p.grad = gradient(i, p.numel(), t)
        optimizer.step()
        yield [p.detach().clone() for p in tensors]


def by_formula(update, **params):
    """Parameters after each update by one of the functions below."""
    tensors = [start(i, size) for i, (size, _) in enumerate(TENSORS)]
    states = [{'m': torch.zeros_like(p), 'v': torch.zeros_like(p)} for p in tensors]
    for t in range(1, STEPS + 1):
        for i, (p, state, (size, decays)) in enumerate(zip(tensors, states, TENSORS)):
            p += update(p, gradient(i, size, t), t, rate(t), WEIGHT_DECAY if decays else 0, **state, **params)
        yield [p.clone() for p in tensors]


def adamw_uncorrected(p, g, t, lr, wd, m, v, betas, eps):
    m.mul_(betas[0]).add_((1 - betas[0]) * g)
    v.mul_(betas[1]).add_((1 - betas[1]) * g * g)
    return -lr * (m / (v.sqrt() + eps) + wd * p)


def lion(p, g, t, lr, wd, m, v, betas):
    """sign(0) is 0, as in the paper."""
    step = -lr * (torch.sign(betas[0] * m + (1 - betas[0]) * g) + wd * p)
    m.mul_(betas[1]).add_((1 - betas[1]) * g)
    return step


def lamb(p, g, t, lr, wd, m, v, betas, eps, bias_correction=True, eps_inside_sqrt=False, min_coeff=0.01, max_coeff=10.0):
    m.mul_(betas[0]).add_((1 - betas[0]) * g)
    v.mul_(betas[1]).add_((1 - betas[1]) * g * g)
    update = m / ((v + eps).sqrt() if eps_inside_sqrt else v.sqrt() + eps) + wd * p
    ratio = 1.0
    if p.norm() != 0 and update.norm() != 0:
        ratio = min(max((p.norm() / update.norm()).item(), min_coeff), max_coeff)
    if bias_correction:
        lr = lr * math.sqrt(1 - betas[1]**t) / (1 - betas[0]**t)
    return -lr * ratio * update


ADAM = {'betas': (0.9, 0.99), 'eps': 1e-6}
LAMB = functools.partial(by_formula, lamb, **ADAM)
SGD = functools.partial(in_torch, torch.optim.SGD)

# (type and parameters in a config, parameters after each update)
UPDATES = [
    ('AdamW', ADAM, in_torch(torch.optim.AdamW, **ADAM)),
    ('AdamW', ADAM | {'bias_correction': False}, by_formula(adamw_uncorrected, **ADAM)),
    ('Adam', ADAM, in_torch(torch.optim.AdamW, **ADAM)),
    ('Adam', ADAM | {'adam_w_mode': False}, in_torch(torch.optim.Adam, **ADAM)),
    ('SGD', {}, SGD()),
    ('SGD', {'momentum': 0.9}, SGD(momentum=0.9)),
    ('SGD', {'momentum': 0.9, 'dampening': 0.3}, SGD(momentum=0.9, dampening=0.3)),
    ('SGD', {'momentum': 0.9, 'nesterov': True}, SGD(momentum=0.9, nesterov=True)),
    ('Adagrad', {'eps': 1e-10}, in_torch(torch.optim.Adagrad, eps=1e-10)),
    ('Lion', {'betas': (0.9, 0.99)}, by_formula(lion, betas=(0.9, 0.99))),
    ('Lamb', ADAM, LAMB()),
    ('Lamb', ADAM | {'bias_correction': False}, LAMB(bias_correction=False)),
    ('Lamb', ADAM | {'eps_inside_sqrt': True}, LAMB(eps_inside_sqrt=True)),
    ('Lamb', ADAM | {'min_coeff': 0.2, 'max_coeff': 0.3}, LAMB(min_coeff=0.2, max_coeff=0.3)),
]


def rates(*parts):
    """Rates of the updates, part by part: a torch scheduler and the number of its updates."""
    out = []
    for scheduler, updates in parts:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
        scheduler = scheduler(optimizer)
        for _ in range(updates):
            out.append(optimizer.param_groups[0]['lr'])
            optimizer.step()
            scheduler.step()
    return out


def linear(first, last, updates):
    return functools.partial(lr_scheduler.LinearLR, start_factor=first, end_factor=last, total_iters=updates)


def cosine(updates):
    return functools.partial(lr_scheduler.CosineAnnealingLR, T_max=updates, eta_min=0.1 * LR)


def minus_sqrt(updates):
    share = lambda k: 0.1 + 0.9 * (1 - math.sqrt(min(1, k / updates)))
    return functools.partial(lr_scheduler.LambdaLR, lr_lambda=share)


WARMUP, CONSTANT = (linear(1 / 5, 1, 4), 5), functools.partial(lr_scheduler.ConstantLR, factor=1)
FIVE, LEAST = {'warmup_iters': 5}, {'min_lr': 0.1 * LR}

# (training.lr_schedule with train_iters 40, rates of the updates)
SCHEDULES = [
    ({'type': 'constant'}, rates((CONSTANT, 40))),
    ({'type': 'constant'} | FIVE, rates(WARMUP, (CONSTANT, 35))),
    ({'type': 'cosine'} | FIVE | LEAST, rates(WARMUP, (cosine(35), 36))),
    ({'type': 'cosine', 'decay_iters': 12} | LEAST, rates((cosine(12), 13))),
    ({'type': 'wsd'} | FIVE | LEAST, rates(WARMUP, (CONSTANT, 31), (linear(1, 0.1, 4), 8))),
    ({'type': 'wsd', 'decay_iters': 20} | FIVE | LEAST, rates(WARMUP, (CONSTANT, 15), (linear(1, 0.1, 20), 24))),
    ({'type': 'wsd', 'decay_iters': 20, 'decay_style': 'cosine'} | LEAST, rates((CONSTANT, 20), (cosine(20), 21))),
    ({'type': 'wsd', 'decay_iters': 20, 'decay_style': 'minus_sqrt'} | LEAST,
     rates((CONSTANT, 20), (minus_sqrt(20), 24))),
]


def main():
    updates = []
    for kind, params, trajectory in UPDATES:
        after = {str(t): [float(f'{x:.9g}') for p in tensors for x in p.tolist()]
                 for t, tensors in enumerate(trajectory, 1) if t in SHOWN}
        updates.append({'type': kind, 'params': params | {'lr': LR, 'weight_decay': WEIGHT_DECAY}, 'after': after})
    schedules = [{'lr_schedule': schedule, 'rates': [float(f'{x:.13g}') for x in of_updates]}
                 for schedule, of_updates in SCHEDULES]
    lines = lambda items: '[\n    ' + ',\n    '.join(json.dumps(item) for item in items) + '\n  ]'
    OUT.write_text(f'{{\n  "updates": {lines(updates)},\n  "lr": {LR},\n  "train_iters": 40,\n'
                   f'  "schedules": {lines(schedules)}\n}}\n')


main()
