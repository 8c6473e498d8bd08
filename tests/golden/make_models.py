#!/usr/bin/env python3
"""Writes tests/fixtures/models/: what transformers computes for tiny models of each family.

    python3 tests/golden/make_models.py        needs torch, transformers, safetensors, numpy

CASE.json          the model under hgtrain's names of ModelConfig, batch sizes, losses of 20 steps of AdamW, how far a
                   bf16 model's loss and gradients of the first batch are from those of fp32, and how generate() continues
                   a prompt greedily
CASE.safetensors   logits [B, T, V] and the gradient of every parameter, of the first batch
gpt2_vocabulary/   models with GPT-2's vocabulary and odd sizes: instead of CASE.safetensors, which would be large, the norm
                   of every gradient of the first batch, in CASE.json

Weights and tokens are not stored: both sides compute them from the hash below (tests/model/golden.h).
"""
import copy
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / 'fixtures' / 'models'
STEPS, LR, BETAS, EPS, WEIGHT_DECAY = 20, 1e-3, (0.9, 0.999), 1e-8, 0.1
PROMPT_TOKENS, NEW_TOKENS = 5, 12


def hashes(name, count):
    """splitmix64 of the FNV-1a hash of the name plus 0, 1, 2, ..."""
    seed = 0xcbf29ce484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001b3 % 2**64
    with np.errstate(over='ignore'):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        return z ^ (z >> np.uint64(31))


def weights(name, shape):
    """Uniform: within 0.3 of 0, norm gains within 0.3 of 1."""
    uniform = (hashes(name, math.prod(shape)) >> np.uint64(40)).astype(np.float32) / np.float32(2**24)
    center = 1.0 if 'norm' in name and name.endswith('weight') or '.ln_' in name and name.endswith('weight') else 0.0
    return torch.from_numpy((center + (uniform * 2 - 1) * np.float32(0.3)).astype(np.float32).reshape(shape))


def batch(case, step):
    """Tokens [B, T] and targets [B, T]; every fifth target does not count."""
    b, t, v = case['batch'], case['seq_length'], case['model']['vocab_size']
    stream = (hashes(f'tokens {step}', b * (t + 1)) % np.uint64(v)).astype(np.int64).reshape(b, t + 1)
    targets = stream[:, 1:].copy()
    targets.reshape(-1)[::5] = -100
    return torch.from_numpy(stream[:, :-1].copy()), torch.from_numpy(targets)


def rope(kind='', **keys):
    return {'type': kind, **keys}


def hf_config(m):
    """transformers' config of a model given under our names."""
    common = dict(vocab_size=m['vocab_size'], tie_word_embeddings=m['tie_word_embeddings'], attn_implementation='eager')
    if m['model_type'] == 'gpt2':
        return transformers.GPT2Config(
            n_embd=m['hidden_size'], n_inner=m['intermediate_size'], n_layer=m['num_hidden_layers'],
            n_head=m['num_attention_heads'], n_positions=m['max_position_embeddings'], embd_pdrop=0.0, resid_pdrop=0.0,
            attn_pdrop=0.0, activation_function=m['hidden_act'], layer_norm_epsilon=m['norm_eps'],
            scale_attn_by_inverse_layer_idx=m['scale_attn_by_inverse_layer_idx'], **common)
    scaling, windows = dict(m['rope_scaling']), m['layer_windows']
    parameters = {'rope_theta': m['rope_theta'], 'rope_type': scaling.pop('type') or 'default', **scaling}
    if windows:
        common.update(use_sliding_window=any(windows), sliding_window=max(windows) or None,
                      layer_types=['sliding_attention' if w else 'full_attention' for w in windows])
    # A family's class ignores keys that it does not have. Of a pad token, the embedding would have no gradient.
    return transformers.AutoConfig.for_model(
        m['model_type'], hidden_size=m['hidden_size'], intermediate_size=m['intermediate_size'],
        num_hidden_layers=m['num_hidden_layers'], num_attention_heads=m['num_attention_heads'],
        num_key_value_heads=m['num_key_value_heads'], head_dim=m['head_dim'],
        max_position_embeddings=m['max_position_embeddings'], hidden_act=m['hidden_act'], rms_norm_eps=m['norm_eps'],
        rope_parameters=parameters, attention_bias=m['attention_bias'], mlp_bias=m['mlp_bias'], pad_token_id=None, **common)


def model(kind, **changes):
    m = dict(model_type=kind, vocab_size=67, hidden_size=32, intermediate_size=88, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=32, hidden_act='silu',
             norm_eps=1e-6, rope_theta=10000.0, rope_scaling=rope(), tie_word_embeddings=False, attention_bias=False,
             attention_out_bias=False, mlp_bias=False, qk_norm=False, layer_windows=[],
             scale_attn_by_inverse_layer_idx=False)
    if kind == 'gpt2':
        m.update(num_key_value_heads=4, intermediate_size=128, hidden_act='gelu_new', norm_eps=1e-5,
                 tie_word_embeddings=True, attention_bias=True, attention_out_bias=True, mlp_bias=True)
    return {**m, **changes}


CASES = {
    'gpt2': model('gpt2'),
    'gpt2_untied': model('gpt2', tie_word_embeddings=False, hidden_act='gelu', intermediate_size=72,
                         scale_attn_by_inverse_layer_idx=True),
    'llama': model('llama', rope_scaling=rope('llama3', factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                              original_max_position_embeddings=8)),
    'llama_yarn': model('llama', tie_word_embeddings=True, attention_bias=True, attention_out_bias=True, mlp_bias=True,
                        hidden_size=24, head_dim=6, num_key_value_heads=1,
                        rope_scaling=rope('yarn', factor=4.0, original_max_position_embeddings=8)),
    'llama_linear': model('llama', hidden_size=24, head_dim=10, num_attention_heads=3, num_key_value_heads=3,
                          intermediate_size=40, rope_scaling=rope('linear', factor=2.5), hidden_act='gelu_pytorch_tanh'),
    'mistral': model('mistral', layer_windows=[5, 5], norm_eps=1e-5),
    'qwen2': model('qwen2', attention_bias=True, tie_word_embeddings=True, layer_windows=[0, 7], rope_theta=1e6),
    'qwen3': model('qwen3', qk_norm=True, num_attention_heads=3, num_key_value_heads=1, head_dim=16,
                   max_position_embeddings=8, rope_scaling=rope('dynamic', factor=2.0)),
}


# Odd widths and lengths; 50257 rows are padded to 50304 on GPUs.
LARGE = {
    'gpt2': (model('gpt2', vocab_size=50257, hidden_size=18, intermediate_size=72, num_attention_heads=3, num_key_value_heads=3,
                   head_dim=6), 7),
    'llama': (model('llama', vocab_size=50257, hidden_size=24, intermediate_size=37, num_attention_heads=6, num_key_value_heads=3,
                    head_dim=6), 13),
}


def adamw(parameters, moments, step):
    """AdamW as published, all parameters decayed."""
    for p, (m, v) in zip(parameters, moments):
        m.mul_(BETAS[0]).add_(p.grad, alpha=1 - BETAS[0])
        v.mul_(BETAS[1]).addcmul_(p.grad, p.grad, value=1 - BETAS[1])
        denominator = (v / (1 - BETAS[1]**step)).sqrt_().add_(EPS)
        p.data.mul_(1 - LR * WEIGHT_DECAY).addcdiv_(m / (1 - BETAS[0]**step), denominator, value=-LR)
        p.grad = None


def first_batch(net, case):
    """Logits, loss, and the gradient of every parameter."""
    tokens, targets = batch(case, 0)
    logits = net(tokens).logits.float()
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    return logits.detach(), loss.item(), {key: p.grad.float().clone() for key, p in net.named_parameters()}


def bf16_errors(net, case, loss, gradients):
    """Distances of a model whose weights, activations and gradients are bf16."""
    _, narrow_loss, narrow = first_batch(copy.deepcopy(net).to(torch.bfloat16), case)
    return {'loss': abs(narrow_loss - loss),
            'gradients': {key: float(f'{(narrow[key] - g).norm().item():.4g}') for key, g in gradients.items()}}


def greedy(net, case):
    """How generate() continues the first tokens of the first batch. It may change the model's rotary table, so it gets a copy."""
    net = copy.deepcopy(net)
    net.generation_config.eos_token_id = None
    prompt = batch(case, 0)[0][:1, :PROMPT_TOKENS]
    tokens = net.generate(prompt, do_sample=False, max_new_tokens=NEW_TOKENS)[0, PROMPT_TOKENS:]
    return {'prompt': prompt[0].tolist(), 'tokens': tokens.tolist()}


def build(m):
    """The model with its first weights."""
    net = transformers.AutoModelForCausalLM.from_config(hf_config(m)).float().eval()
    for key, p in net.named_parameters():
        p.data.copy_(weights(key, tuple(p.shape)))
    return net


def write(path, case):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(case, indent=1) + '\n')
    print(f'{path}: {case["losses"][0]:.4f} -> {case["losses"][-1]:.4f}')


def run_large(name, m, length):
    case = {'model': m, 'batch': 2, 'seq_length': length}
    net = build(m)
    _, loss, gradients = first_batch(net, case)
    case['bf16_errors'] = bf16_errors(net, case, loss, gradients)
    case['losses'] = [loss]
    case['gradient_norms'] = {key: g.double().norm().item() for key, g in gradients.items()}
    write(OUT / 'gpt2_vocabulary' / f'{name}.json', case)


def run(name, m):
    case = {'model': m, 'batch': 2, 'seq_length': 19,
            'adamw': {'lr': LR, 'beta1': BETAS[0], 'beta2': BETAS[1], 'eps': EPS, 'weight_decay': WEIGHT_DECAY}}
    net = build(m)
    parameters = dict(net.named_parameters())
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters.values()]
    logits, loss, gradients = first_batch(net, case)
    tensors = {'logits': logits.numpy()} | {key: g.numpy() for key, g in gradients.items()}
    case['bf16_errors'] = bf16_errors(net, case, loss, gradients)
    case['greedy'] = greedy(net, case)
    net.zero_grad()
    losses = []
    for step in range(STEPS):
        tokens, targets = batch(case, step)
        logits = net(tokens).logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(loss.item())
        adamw(list(parameters.values()), moments, step + 1)
    case['losses'] = losses
    write(OUT / f'{name}.json', case)
    save_file(tensors, OUT / f'{name}.safetensors')


if __name__ == '__main__':
    for name, m in CASES.items():
        run(name, m)
    for name, (m, length) in LARGE.items():
        run_large(name, m, length)
