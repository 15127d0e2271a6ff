#!/usr/bin/env python3
"""A training or serving program of a library, with random weights and sizes that change from step
to step. It runs under the allocator of MEND_BENCH_ALLOCATOR within a limit, and prints one line of
JSON. It needs timm, torchvision and transformers, and a GPU.

    MEND_BENCH_ALLOCATOR=native bench/torch/limits.py convnext            # what it uses at most
    MEND_BENCH_ALLOCATOR=mend bench/torch/limits.py convnext --memory 7900000000
"""

from __future__ import annotations

import argparse
import json

import harness

STEPS, WARM_UP = 60, 4


def train(place, model, loss_of):
    """A step of AdamW. `loss_of` draws the batch."""
    torch = place.torch
    model = model.to(place.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step(_index: int) -> None:
        with place.autocast():
            loss = loss_of(model)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def convnext(place, chance):
    """Batches of 24 pictures of one size, 160 to 448."""
    import timm

    torch = place.torch

    def loss(model):
        side = chance.randrange(160, 449, 32)
        pictures = torch.randn(24, 3, side, side, device=place.device)
        labels = torch.randint(1000, (24,), device=place.device)
        return torch.nn.functional.cross_entropy(model(pictures), labels)

    return train(place, timm.create_model("convnext_tiny", pretrained=False), loss)


def detector(place, chance):
    """Mask R-CNN: 6 pictures of 400 to 1000 with 1 to 30 objects each."""
    from torchvision.models.detection import maskrcnn_resnet50_fpn

    torch = place.torch

    def target(tall: int, wide: int) -> dict:
        count = chance.randint(1, 30)
        corner = torch.rand(count, 2) * torch.tensor([wide * 0.7, tall * 0.7])
        boxes = torch.cat((corner, corner + 10 + torch.rand(count, 2) * 0.25 * min(tall, wide)), 1)
        return {
            "boxes": boxes.to(place.device),
            "labels": torch.randint(1, 91, (count,), device=place.device),
            "masks": torch.zeros(count, tall, wide, dtype=torch.uint8, device=place.device),
        }

    def loss(model):
        sides = [(chance.randint(400, 1000), chance.randint(400, 1000)) for _ in range(6)]
        pictures = [torch.rand(3, *side, device=place.device) for side in sides]
        with torch.autocast(place.device.type, enabled=False):
            return sum(model(pictures, [target(*side) for side in sides]).values())

    return train(place, maskrcnn_resnet50_fpn(weights=None, weights_backbone=None), loss)


def speech(place, chance):
    """Wav2Vec2: 8 recordings of 2 to 21 seconds."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    torch = place.torch

    def loss(model):
        sound = torch.randn(8, int(chance.uniform(2, 21) * 16000), device=place.device)
        labels = torch.randint(1, 31, (8, 20), device=place.device)
        return model(sound, labels=labels).loss

    return train(place, Wav2Vec2ForCTC(Wav2Vec2Config(ctc_zero_infinity=True)), loss)


def tokens(place, chance, batch: int, shortest: int, longest: int, words: int):
    """A loss over a batch of one length."""
    torch = place.torch

    def loss(model):
        shape = (batch, chance.randint(shortest, longest))
        text = torch.randint(words, shape, device=place.device)
        return model(input_ids=text, labels=text).loss

    return loss


def bert(place, chance):
    """BERT large: 16 texts of 32 to 512 tokens."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                        intermediate_size=4096)
    return train(place, BertForMaskedLM(config), tokens(place, chance, 16, 32, 512, 30000))


def gpt2(place, chance):
    """GPT-2 medium: 4 texts of 128 to 1024 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=1024, n_layer=24, n_head=16)
    return train(place, GPT2LMHeadModel(config), tokens(place, chance, 4, 128, 1024, 50000))


def experts(place, chance):
    """Mixtral, 8 experts, small: 4 texts of 128 to 1024 tokens."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(hidden_size=1024, intermediate_size=2048, num_hidden_layers=8,
                           num_attention_heads=16, num_key_value_heads=4)
    return train(place, MixtralForCausalLM(config), tokens(place, chance, 4, 128, 1024, 30000))


def generation(place, chance):
    """GPT-2 large writes 64 to 192 tokens for 1 to 16 prompts of 32 to 768."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch = place.torch
    config = GPT2Config(n_embd=1280, n_layer=36, n_head=20)
    model = GPT2LMHeadModel(config).to(place.device, torch.bfloat16).eval()

    def step(_index: int) -> None:
        shape = (chance.randint(1, 16), chance.randint(32, 768))
        text = torch.randint(50000, shape, device=place.device)
        more = chance.randint(64, 192)
        with torch.no_grad():
            model.generate(text, max_new_tokens=more, min_new_tokens=more, do_sample=False,
                           pad_token_id=0)

    return step


PROGRAMS = {f.__name__: f for f in (convnext, detector, speech, bert, gpt2, experts, generation)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", choices=sorted(PROGRAMS))
    parser.add_argument("--memory", type=int, default=0, help="bytes the allocator may take")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    allocator = harness.choose_allocator()
    place = harness.Place(is_dry=False)
    place.limit(arguments.memory)
    row = {"program": arguments.program, "allocator": allocator, "memory_bytes": arguments.memory}
    try:
        step = PROGRAMS[arguments.program](place, place.seed(arguments.seed))
        row.update(harness.measure(place, step, arguments.steps, WARM_UP))
    except harness.out_of_memory(place.torch):
        row.update(completed=False, failed_at_step=-1, steps=0, **place.figures())
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
