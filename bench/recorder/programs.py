"""All programs by name."""
import parallel
import scenes
import serving
import vision

ALL = {
    "dino-multicrop": vision.dino_multicrop,
    "unet-ema": vision.unet_ema,
    "whisper-beam": serving.whisper_beam,
    "paged-lora-prefill": serving.paged_lora_prefill,
    "pipeline-tensor-3stream": parallel.pipeline_tensor_3stream,
    "dlrm-tables": parallel.dlrm_tables,
    "gaussian-splats": scenes.gaussian_splats,
    "gnn-sampled": scenes.gnn_sampled,
}
