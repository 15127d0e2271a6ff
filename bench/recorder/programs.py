"""All programs by name."""
import graphs
import notebook
import parallel
import scenes
import servers
import serving
import steps
import tables
import video
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
    "models-one-process": servers.models_one_process,
    "longctx-prefix-cache": servers.longctx_prefix_cache,
    "moe-serve-4bit": servers.moe_serve_4bit,
    "rl-weight-sync": steps.rl_weight_sync,
    "accumulate-lengths": steps.accumulate_lengths,
    "graphs-by-length": graphs.graphs_by_length,
    "growing-tables": tables.growing_tables,
    "frames-and-training": tables.frames_and_training,
    "video-diffusion": video.video_diffusion,
    "notebook-retries": notebook.notebook_retries,
}
