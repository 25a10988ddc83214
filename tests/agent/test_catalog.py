"""Names of models and data sets: aliases, families, typos, costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent import catalog

ALIASES = json.loads(Path(catalog.__file__).with_name("aliases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("efficientnet", "efficientnet_b0"),
        ("mobilenet v3", "mobilenetv3_large_100"),
        ("ViT-B/16", "vit_base_patch16_224"),
        ("swin-t", "swin_tiny_patch4_window7_224"),
        ("ConvNeXt tiny", "convnext_tiny"),
        ("ResNet-50", "resnet50"),
        ("wrn-28-10", "wide_resnet28_10"),
        ("bert-base", "bert-base-uncased"),
        ("bert-base-uncased", "bert-base-uncased"),
        ("yolov8n", "yolov8n"),
        ("wav2vec2-large", "wav2vec2-large"),
        ("llama-3-8b", "llama-3-8b"),
        ("resnt50", None),
        ("cifar10", None),
    ],
)
def test_what_people_call_a_model(called: str, name: str | None) -> None:
    """Any spelling leads to one name, and a typo or a data set to none."""
    assert catalog.model(called) == name


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("CIFAR-10", "cifar10"),
        ("tiny imagenet", "tiny_imagenet"),
        ("ImageNet", "imagenet1k"),
        ("SST-2", "glue_sst2"),
        ("cifr10", None),
    ],
)
def test_what_people_call_a_data_set(called: str, name: str | None) -> None:
    """Any spelling leads to one name."""
    assert catalog.dataset(called) == name


def test_every_alias_leads_to_its_name() -> None:
    """No alias is hidden by another entry of the tables."""
    lost = [
        (name, a) for name, all_ in ALIASES["models"].items() for a in all_ if a.isascii() and catalog.model(a) != name
    ]
    lost += [(n, a) for n, all_ in ALIASES["datasets"].items() for a in all_ if a.isascii() and catalog.dataset(a) != n]

    assert lost == []


def test_typos_have_near_names() -> None:
    """The nearest name comes first."""
    assert catalog.nearest("resnt50", "model")[0] == "resnet50"
    assert catalog.nearest("cifr10", "dataset")[0] == "cifar10"
    assert catalog.nearest("qqqqqqqq", "model") == []


def test_the_library_of_a_model() -> None:
    """The planner decides with it whether the vision template can build it."""
    assert catalog.source("resnet50") == "timm"
    assert catalog.source("shufflenet_v2_x1_0") == "torchvision"
    assert catalog.source("bert-base-uncased") == "outside"
