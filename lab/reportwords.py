"""What stands around the numbers of a report, in English and in Chinese."""

from __future__ import annotations

from lab.language import Phrasebook

WORDS = Phrasebook(
    {
        "ok": ("{n} ok", "{n} 个完成"),
        "failed": ("{n} failed", "{n} 个失败"),
        "stopped_early": ("stopped early", "提前停止"),
        "pruned": ("{n} stopped early", "{n} 个提前停止"),
        "cancelled": ("{n} cancelled", "{n} 个取消"),
        "none": ("no run ended", "没有结束的 run"),
        "comma": (", ", "，"),
        "peak": ("peak {memory}", "峰值 {memory}"),
        "host_memory": (" host memory", " 主机内存"),
        "simulated": ("simulated cards", "模拟显卡"),
        "run_failed": ("{run} failed: {why}", "{run} 失败：{why}"),
        "again": ("again: {command}", "再跑一次：{command}"),
        "run_again": ("Run it again:", "再跑一次："),
        "revision": (" (revision {n})", "（第 {n} 版）"),
        "failed_runs": ("Failed runs", "失败的 run"),
        "warnings": ("Warnings", "警告"),
        "notes": ("Notes", "说明"),
        "model": ("model", "模型"),
        "dataset": ("data set", "数据集"),
        "point": ("point", "配置"),
        "seeds": ("seeds", "种子"),
        "mean": ("{metric}, mean ± sd", "{metric}，均值 ± 标准差"),
        "interval": ("95 % interval", "95 % 区间"),
        "best_seed": ("best seed", "最好的种子"),
        "at_the_end": ("at the end", "末尾趋势"),
        "of": ("{n} of {all}", "{all} 中 {n}"),
        "reused": (" ({n} from {where})", "（{n} 个来自 {where}）"),
        "with_seed": (" (seed {seed})", "（种子 {seed}）"),
        "n_seeds": ("{n} seeds", "{n} 个种子"),
        "interval_of": ("95 % interval {interval}", "95 % 区间 {interval}"),
        "no_result": ("no result", "没有结果"),
        "improving": ("still improving", "仍在提升"),
        "flat": ("flat", "持平"),
        "worsening": ("getting worse", "变差"),
        "to": (" to ", " 到 "),
        "unknown": ("no cause known", "原因不明"),
        "best_of": (
            "the best {n} of {all} points; all of them are in {file}",
            "{all} 个配置中最好的 {n} 个；全部见 {file}",
        ),
        "more_failed": ("and {n} more failed", "另有 {n} 个失败"),
        "more_said": ("and {n} more in {file}", "另有 {n} 条见 {file}"),
        "upload": ("curves and the whole report of {experiment}{gone}", "{experiment} 的曲线和完整报告{gone}"),
        "gone": (" ({files} is gone: figures are kept 30 days)", "（{files} 已不在：图保留 30 天）"),
        "no_report": (
            "The report of {experiment} (revision {n}) is not there any more.",
            "{experiment} 的报告（第 {n} 版）已经不在了。",
        ),
        "retry": ("Retry what failed", "重试失败的"),
    }
)
"""Sentences and headings; the verdict and the notes come from the agent in the report's language already."""

CAUSES: dict[str, str] = {
    "oom_gpu": "显存不足：减小 batch 或图像尺寸，或用更大的卡",
    "oom_host": "主机内存不足：减少 dataloader 进程，或换内存更大的机器",
    "shm": "共享内存不足：增大 /dev/shm，或减少 dataloader 进程",
    "disk_full": "磁盘已满：清理空间后恢复",
    "nan_loss": "损失变为 NaN：降低学习率、加梯度裁剪或预热",
    "nccl": "多卡通信失败：再试一次；若重复出现，请管理员检查网络和 NCCL",
    "device_assert": "CUDA 断言失败：多半是标签超出类别数，请检查数据和类别数",
    "illegal_access": "CUDA 非法访问：换一张卡再试；若重复出现，请检查自定义算子",
    "hardware": "显卡硬件故障：该卡已停用，请管理员检查",
    "driver_mismatch": "驱动与 CUDA 版本不匹配：请管理员更新驱动",
    "arch_mismatch": "PyTorch 不支持这张卡的架构：请管理员更换 PyTorch 版本",
    "fork_cuda": "fork 之后使用了 CUDA：用 spawn 启动子进程",
    "port_in_use": "端口被占用：换一个端口再试",
    "import_error": "缺少 Python 包：安装后重试",
    "data_missing": "找不到数据：检查路径和数据集",
    "network": "网络不通：恢复后重试",
    "auth": "没有访问权限：检查登录信息或令牌",
    "checkpoint_mismatch": "检查点与模型不符：换检查点或从头训练",
    "permission": "没有文件权限：检查目录的所有者和权限",
    "user_code": "代码出错：请按报错修改",
    "bad_args": "参数不对：请按报错修改",
    "compile_error": "编译失败：检查 CUDA 工具链，或关闭 compile",
    "hang": "长时间没有进展，已被停止：检查数据加载和通信",
    "preempted": "被抢占：会自动继续",
    "time_limit": "超过时间上限：增加时间或减少轮数",
}
"""Cause of a failure to what it is and what to do, in Chinese."""


def advice(cause: str | None, english: str | None, chinese: bool) -> str:
    """What a person can do about a failure of this cause, where that is known; else what was said in English."""
    return CAUSES.get(cause or "", english or "") if chinese else english or ""
