"""A model by its name: timm's first, then torchvision's; unknown names come back with the nearest ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import timm
import torch
import torchvision
from torch import nn

from lab.errors import OperatorError, RequestError
from workers.templates.params import VisionParams

Library = Literal["timm", "torchvision"]
Triple = tuple[float, float, float]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)

WITH_AUXILIARY_HEADS = ("googlenet", "inception_v3")
"""Torchvision models that return several outputs while training unless told otherwise."""


@dataclass(frozen=True)
class Built:
    """A model on the CPU, ready to train, logits out: (batch, 3, size, size) -> (batch, classes)."""

    model: nn.Module
    library: Library
    name: str
    head: tuple[nn.Module, ...]
    """The classifier, which alone trains when the backbone is frozen."""
    normalisation: tuple[Triple, Triple] | None
    """Mean and standard deviation that pretrained weights expect; None leaves it to the data set."""
    warnings: tuple[str, ...]

    def freeze_backbone(self) -> None:
        """Only the classifier has gradients."""
        self.model.requires_grad_(False)
        for module in self.head:
            module.requires_grad_(True)


def resolve(name: str) -> tuple[Library, str]:
    """The library and its name for `name`; `timm:` or `torchvision:` in front asks for that library.

    Raises:
        RequestError: neither has it; the message names the nearest.
    """
    asked, _, plain = name.rpartition(":")
    plain = re.sub(r"[\s-]+", "_", plain.strip())
    wanted = plain if timm.is_model(plain.split(".")[0]) else plain.lower()
    of_torchvision = torchvision.models.list_models(module=torchvision.models)
    if asked not in ("", "timm", "torchvision"):
        raise RequestError(f"model {name!r}: models come from timm or torchvision, not from {asked!r}")
    if asked != "torchvision" and timm.is_model(wanted.split(".")[0]):
        return "timm", wanted
    if asked != "timm" and wanted in of_torchvision:
        return "torchvision", wanted
    known = {*(() if asked == "torchvision" else timm.list_models()), *(() if asked == "timm" else of_torchvision)}
    near = difflib.get_close_matches(wanted, sorted(known), n=3, cutoff=0.5)
    versions = f"timm {timm.__version__} and torchvision {torchvision.__version__}"
    raise RequestError(
        f"no model {name!r} in {versions}; {'nearest: ' + ', '.join(near) if near else 'no name is like it'}"
    )


def build(name: str, classes: int, image_size: int, params: VisionParams) -> Built:
    """The model for `classes` classes and square images of `image_size`, with the seed's weights or pretrained ones.

    Options that a model does not have are left out; a warning says so where the plan asked for them.
    """
    library, plain = resolve(name)
    if library == "timm":
        options: dict[str, Any] = {"img_size": image_size}
        dropouts = {"drop_rate": params.dropout, "drop_path_rate": params.drop_path}
    else:
        options = {"image_size": image_size}
        dropouts = {"dropout": params.dropout, "stochastic_depth_prob": params.drop_path}
        if plain in WITH_AUXILIARY_HEADS and not params.pretrained:
            options |= {"aux_logits": False, "init_weights": True}
    options |= {key: value for key, value in dropouts.items() if value}
    make = _timm(plain, classes, params) if library == "timm" else _torchvision(plain, classes, params)
    model, left_out = _with_known_options(make, options)
    warnings = [f"{plain} has no {key}: {dropouts[key]:g} had no effect" for key in left_out if dropouts.get(key)]
    head = _head(model)
    if params.freeze_backbone and not params.pretrained:
        warnings.append("the backbone is frozen at random weights, since pretrained is off")
    return Built(model, library, plain, head, _normalisation(model) if params.pretrained else None, tuple(warnings))


def check_size(model: nn.Module, name: str, image_size: int, device: torch.device) -> None:
    """The model takes images of this size.

    Raises:
        RequestError: it does not; the library's own words are in the message.
    """
    model.eval()
    try:
        with torch.no_grad():
            logits = model(torch.zeros(2, 3, image_size, image_size, device=device))
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, AssertionError, ValueError, IndexError, ZeroDivisionError) as error:
        reason = str(error).strip().splitlines()
        raise RequestError(
            f"{name} does not take images of {image_size} x {image_size} "
            f"({reason[0] if reason else type(error).__name__}); set image_size to what it was made for, often 224"
        ) from error
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2:
        raise RequestError(f"{name} is no plain classifier: it does not return one row of logits an image")


def _timm(name: str, classes: int, params: VisionParams) -> Callable[..., nn.Module]:
    def make(**options: Any) -> nn.Module:
        model: nn.Module = timm.create_model(name, pretrained=params.pretrained, num_classes=classes, **options)
        return model

    return make if not params.pretrained else _explained(make, name)


def _torchvision(name: str, classes: int, params: VisionParams) -> Callable[..., nn.Module]:
    def make(**options: Any) -> nn.Module:
        if not params.pretrained:
            model: nn.Module = torchvision.models.get_model(name, weights=None, num_classes=classes, **options)
            return model
        model = torchvision.models.get_model(name, weights="DEFAULT", **options)
        if name in WITH_AUXILIARY_HEADS:
            model.aux_logits = False  # type: ignore[assignment]  # their pretrained weights come with these heads only
        _replace_head(model, classes)
        return model

    return make if not params.pretrained else _explained(make, name)


def _explained(make: Callable[..., nn.Module], name: str) -> Callable[..., nn.Module]:
    """Weights that can be neither found nor fetched are for the operator, not a bug of the model."""

    def attempt(**options: Any) -> nn.Module:
        try:
            return make(**options)
        except (OSError, RuntimeError) as error:
            raise OperatorError(
                f"the pretrained weights of {name} are not in this host's cache and could not be fetched ({error}); "
                "load them once on this host, or plan with pretrained off"
            ) from error

    return attempt


def _with_known_options(make: Callable[..., nn.Module], options: dict[str, Any]) -> tuple[nn.Module, list[str]]:
    """The model made with those options that it knows, and the names of the others.

    Neither library tells which options a model takes (entry points end in **kwargs), so each refusal drops one. Every
    try starts from the same random state: the weights must not depend on how many were refused.
    """
    left_out: list[str] = []
    state = torch.get_rng_state()
    while True:
        torch.set_rng_state(state)
        try:
            return make(**options), left_out
        except TypeError as error:
            refused = next((key for key in options if f"'{key}'" in str(error)), None)
            if refused is None:
                raise
            left_out.append(refused)
            options = {key: value for key, value in options.items() if key != refused}


def _head(model: nn.Module) -> tuple[nn.Module, ...]:
    if hasattr(model, "get_classifier"):
        found: Any = model.get_classifier()  # type: ignore[operator]  # a method of timm's models
        return tuple(found) if isinstance(found, tuple) else (found,)
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
    return (layers[-1],)


def _replace_head(model: nn.Module, classes: int) -> None:
    """The last layer of a torchvision model, made for ImageNet's 1000 classes, gives `classes` logits instead."""
    name, last = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)][-1]
    if isinstance(last, nn.Linear):
        fresh: nn.Module = nn.Linear(last.in_features, classes)
    else:
        fresh = nn.Conv2d(last.in_channels, classes, kernel_size=1)
    parent, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(parent), attribute, fresh)


def _normalisation(model: nn.Module) -> tuple[Triple, Triple]:
    config = getattr(model, "pretrained_cfg", None) or {}
    return tuple(config.get("mean", IMAGENET_MEAN)), tuple(config.get("std", IMAGENET_STD))


def has_batch_norm(model: nn.Module) -> bool:
    """Whether some layer needs two values a channel to train, so that a batch of one may fail."""
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())


def versions() -> dict[str, str]:
    """Library to version."""
    return {"torch": torch.__version__, "timm": timm.__version__, "torchvision": torchvision.__version__}
