"""A model whose forward pass is exact, and why another has none."""

from dataclasses import replace

from opd.models.engine.persistent import fit
from opd.models.engine.persistent.build import NotBuilt, library
from opd.models.load import LanguageModel
from opd.records.errors import AskedWrongly


def exact_model(model: LanguageModel) -> LanguageModel:
    """The model with an exact forward pass over packed sequences; its module is changed, its parameters are not.

    Raises `AskedWrongly` where the persistent kernel can't run: there is nothing to be exact with.
    """
    reason = misfit(model)
    if reason is not None:
        raise AskedWrongly(f"{model.path}: machine.exact can't be had here: {reason}; set it to false")
    from opd.models.exact.layers import make_exact  # needs Triton, which a machine without a GPU need not have

    make_exact(model.module.get_decoder())
    return replace(model, exact=True)


def misfit(model: LanguageModel) -> str | None:
    """Why a model has no exact forward pass here; None when it has one."""
    if reason := fit.misfit(model):
        return f"the persistent kernel can't run this model: {reason}"
    if not model.packs:
        return "its sequences can't stand end to end"
    if any("lora" in name for name, _ in model.module.named_parameters()):
        return "adapters are not among what it does"
    try:
        library()
    except NotBuilt as error:
        return str(error)
    return None
