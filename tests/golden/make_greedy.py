#!/usr/bin/env python3
"""Writes tests/fixtures/greedy.json: how transformers continues a prompt with the models of make_models.py.

    python3 tests/golden/make_greedy.py        needs torch, transformers, safetensors, numpy
"""
import json

import torch
import transformers

from make_models import CASES, OUT, batch, hf_config, weights

PROMPT_TOKENS, NEW_TOKENS = 5, 12

greedy = {}
for name, m in CASES.items():
    net = transformers.AutoModelForCausalLM.from_config(hf_config(m)).float().eval()
    for key, p in net.named_parameters():
        p.data.copy_(weights(key, tuple(p.shape)))
    prompt = batch({'batch': 2, 'seq_length': 19, 'model': m}, 0)[0][:1, :PROMPT_TOKENS]
    net.generation_config.eos_token_id = None
    text = net.generate(prompt, do_sample=False, max_new_tokens=NEW_TOKENS)
    greedy[name] = {'prompt': prompt[0].tolist(), 'tokens': text[0, PROMPT_TOKENS:].tolist()}
lines = ',\n'.join(f' {json.dumps(name)}: {json.dumps(case)}' for name, case in greedy.items())
(OUT.parent / 'greedy.json').write_text('{\n' + lines + '\n}\n')
