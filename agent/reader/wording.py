# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""What the reader says, in English and in Chinese."""

from __future__ import annotations

from lab.language import Phrasebook

SENTENCES: dict[str, tuple[str, str]] = {
    "empty": ("Tell me what to run, for example `compare resnet50 and efficientnet_b0 on cifar10, 3 seeds`; `help` shows more.", "告诉我想跑什么，例如“对比 resnet50 和 efficientnet_b0 在 cifar10 上，3 个种子”；发 help 看更多。"),
    "too_long": ("That message has {n} characters, too many for me to read as one request (at most {most}). What should I run, in a few sentences?", "这条消息有 {n} 个字符，太长了（最多 {most}）。请用几句话说明想跑什么？"),
    "many_numbers": ("That message holds {n} numbers, too many for one request (at most {most}). Which values should I try?", "这条消息里有 {n} 个数字，太多了（最多 {most}）。要试哪些值？"),
    "what": ("I did not understand what to run. Which model, on which data set, and what should vary?", "我没看懂要跑什么。用哪个模型、哪个数据集，要改变什么？"),
    "which_experiment": ("Which experiment do you mean? Give its id (exp-12), or write in its thread.", "你指的是哪个实验？请给出编号（exp-12），或在它的线程里说。"),
    "plan_elsewhere": ("That is about {id}, whose plan I cannot see from here. Ask where its ledger is, in Slack or with `overnight ask`.", "这说的是 {id}，但在这里看不到它的计划。请在 Slack 里或用 `overnight ask` 问。"),
    "no_experiment": ("There is no {id} here; `status` lists what there is.", "这里没有 {id}；发“进度”可以看到现有的实验。"),
    "what_change": ("What should I change in {id}: for example the model, the data set, lr, batch size, epochs or seeds?", "要改 {id} 的什么？例如模型、数据集、学习率、batch、轮数或种子。"),
    "faster": ("What should become faster or better, and how: more cards a run, fewer epochs, smaller data, or another model?", "要让哪个实验更快或更好，用什么办法：每个 run 更多卡、更少轮数、更小的数据，还是换模型？"),
    "names_differ": ("You say {n} {kind} and name {m}: {list}. Which are they?", "说了 {n} 个{kind}，但列出 {m} 个：{list}。到底是哪些？"),
    "epochs_or_steps": ("{epochs} epochs or {steps} steps: which of the two ends a run?", "{epochs} 轮和 {steps} 步，以哪个为准？"),
    "which_best": ("{id} tried {axis} {values}. Which of them shall I take?", "{id} 试过 {axis} {values}，用哪一个？"),
    "against_what": ("Against what shall I compare {name}: another model, a setting, or with something left out?", "{name} 要和什么比：另一个模型、另一个设置，还是去掉某个部分？"),
    "distils": ("I cannot train one model from another (distillation) yet. Shall I train {list} one by one?", "还不能用一个模型去教另一个（蒸馏）。要分别训练 {list} 吗？"),
    "which_model": ("Which model should I train?", "要训练哪个模型？"),
    "which_dataset": ("On which data set?", "用哪个数据集？"),
    "unknown_model": ("I know no model called `{name}`. {near}", "我不认识名为 `{name}` 的模型。{near}"),
    "unknown_dataset": ("I know no data set called `{name}`. {near}", "我不认识名为 `{name}` 的数据集。{near}"),
    "near": ("Did you mean {names}?", "你是指 {names} 吗？"),
    "no_near": ("Which one do you mean?", "你指的是哪一个？"),
    "bad_value": ("{what} cannot be {value}. Which value do you want?", "{what} 不能是 {value}。你想用多少？"),
    "bad_accuracy": ("An accuracy of {value} % cannot be reached; the most is 100 %. What is the goal?", "准确率不可能达到 {value}%，最多 100%。目标是多少？"),
    "in_and_out": ("You name {name} and also say not to use it. Shall it be in or out?", "你提到了 {name}，又说不要用它。到底用不用？"),
    "which_instead": ("Which {axis} shall it be instead of {values}?", "不用 {values} 的话，{axis} 用什么？"),
    "seeds_differ": ("You wrote {n} seeds and named {m} ({list}). Which is it?", "你说了 {n} 个种子，却给出了 {m} 个（{list}）。按哪个来？"),
    "values_differ": ("You wrote {n} values of {axis} and named {m}. Which is it?", "你说了 {n} 个 {axis}，却给出了 {m} 个。按哪个来？"),
    "values_missing": ("Which {n} values of {axis} should I try?", "{axis} 要试哪 {n} 个值？"),
    "search_range": ("Over which range should I search {axis}?", "{axis} 的搜索范围是多少？"),
    "how_many_trials": ("How many trials may the search take?", "搜索一共试多少次？"),
    "what_varies": ("What should the search vary, and over which values?", "要搜索哪个参数，取哪些值？"),
    "too_many": ("That would be {n} runs ({how}), more than the {most} that one experiment may have. Which values matter most?", "这会有 {n} 个 run（{how}），超过一个实验的上限 {most}。哪些取值最重要？"),
    "too_many_seeds": ("{seeds} seeds would be {n} runs, more than the {most} that one experiment may have. How many seeds shall it be? {fits} would fit, and 3 to 5 show the spread.", "{seeds} 个种子会有 {n} 个 run，超过一个实验的上限 {most}。要几个种子？最多 {fits} 个，3 到 5 个就能看出离散程度。"),
    "what_to_tune": ("Which values shall I try of {list}?", "{list} 要试哪些值？"),
    "which_to_tune": ("Which model shall I tune, and on which data set?", "要调哪个模型，用哪个数据集？"),
    "own_script": ("I cannot run scripts or code of your own yet. I can train the image classifiers of timm and torchvision on the lab's data sets, for example `train resnet18 on digits, lr 0.01`. Which model shall it be?", "目前还不能运行你自己的脚本或代码。我可以在实验室的数据集上训练 timm 和 torchvision 的图像分类模型，例如“resnet18 在 digits 上，学习率 0.01”。用哪个模型？"),
    "note_twice": ("{names} is named twice and runs once", "{names} 写了两次，只跑一次"),
    "note_unusual": ("{what} {value} is unusual (mostly {low} to {high}), perhaps a slip", "{what} {value} 不常见（一般在 {low} 到 {high} 之间），可能写错了"),
    "note_grid": ("{axis} from {low} to {high} became {how}: {list}", "{axis} 从 {low} 到 {high} 按 {how} 取值：{list}"),
    "note_unused": ("not used: {list}", "没有用到：{list}"),
    "note_own_dataset": ("{name} is in no catalogue; it has to be a data set of the lab's own hosts", "{name} 不在目录里，必须是实验室机器上自己的数据集"),
    "note_counts": ("the message counts {told} runs, the grid has {n}", "消息里说 {told} 个 run，网格有 {n} 个"),
    "runs_differ": ("You counted {told} runs, and the grid has {n}. Shall I run all {n}?", "你说是 {told} 个 run，但网格共有 {n} 个。要全部跑 {n} 个吗？"),
    "pairs": ("You give each its own {axis} ({list}), and I can only run every combination: {n} runs. Shall I run all of them? Otherwise ask for each in a message of its own.", "你给每个都指定了自己的 {axis}（{list}），但我只能跑所有组合：共 {n} 个 run。要全部跑吗？不然请分开发消息。"),
    "read_as": ("{value} was read as {axis}", "{value} 读作 {axis}"),
    "past": ("That time has passed. When do you need it?", "那个时间已经过去了。什么时候要？"),
    "not_in_plan": ("{id} has no {name}. What should I change?", "{id} 里没有 {name}。要改什么？"),
    "refuse_secret": ("I do not show keys, tokens, passwords or files of the machines.", "我不会展示密钥、令牌、密码或机器上的文件。"),
    "refuse_injection": ("I keep to my task: planning and running experiments. That message asks me to set its rules aside, so I did nothing.", "我只负责规划和运行实验。这条消息要求我不顾规则，所以我什么都没做。"),
    "refuse_shell": ("That contains a shell command. I run none, and names are only names, so nothing was started. Send the request without it.", "里面有 shell 命令。我不执行命令，名字只是名字，所以什么都没启动。请去掉它再发一次。"),
    "refuse_others": ("Those runs belong to somebody else. Only their owner or an administrator may stop or change them.", "那些任务是别人的，只有本人或管理员可以停止或修改。"),
    "refuse_destroy": ("I delete no data, checkpoints or results, and restart no machines. Ask whoever runs the lab.", "我不删除数据、检查点或结果，也不重启机器。请找管理员。"),
    "refuse_rules": ("I cannot go around quotas, approvals, reservations or alerts of the lab.", "我不能绕过实验室的配额、审批、预留或告警。"),
    "refuse_dishonest": ("I report the numbers that were measured, all of them, and make none up.", "我只报告实际测得的全部数字，不会编造或挑选。"),
    "refuse_abuse": ("I run the lab's experiments on these cards and nothing else.", "这些卡只用来跑实验室的实验。"),
    "thanks": ("You are welcome.", "不客气。"),
    "off_topic": ("I cannot help with that: I plan and run experiments. Try `train resnet18 on digits, 3 seeds`, `gpus`, `status` or `help`.", "这个我帮不上：我负责规划和运行实验。可以试试“resnet18 在 digits 上训练，3 个种子”、“有空卡吗”、“进度”或 help。"),
    "chitchat": ("Hello! Tell me what to run when you are ready.", "你好！想跑实验时随时告诉我。"),
    "help": ("I plan and run experiments: `compare resnet50 and vit-s on cifar100, 3 seeds`, `lr 0.1/0.01 for resnet18 on svhn`, `gpus`, `status`, `cancel exp-12`, `why did run 2 fail?`.", "我负责规划和运行实验：“对比 resnet50 和 vit-s 在 cifar100 上，3 个种子”、“resnet18 在 svhn 上学习率 0.1/0.01”、“有空卡吗”、“进度”、“取消 exp-12”、“run 2 为什么失败”。"),
    "gpu_status": ("Reading the cards.", "正在读取显卡状态。"),
    "quota": ("Looking at the quota.", "正在查看配额。"),
    "silence": ("Alerts: {what}. Critical hardware alerts are still sent.", "告警静音：{what}。严重硬件告警仍会发送。"),
    "status": ("Looking at {target}.", "正在查看 {target}。"),
    "explain": ("Looking into {target}.", "正在分析 {target}。"),
    "cancel": ("Asked to stop: {target}.", "请求停止：{target}。"),
    "confirm_cancel": ("Stop {target}?", "要停止 {target} 吗？"),
    "plan": ("{title}: {arithmetic}.", "{title}：{arithmetic}。"),
    "budget_lab": ("the lab's budget of {tokens} language model tokens a day is used up; until midnight UTC I read without the model", "实验室今天的语言模型额度（{tokens} token）已用完；UTC 零点前由内置读取器理解"),
    "budget_person": ("your budget of {tokens} language model tokens a day is used up; until midnight UTC I read without the model", "你今天的语言模型额度（{tokens} token）已用完；UTC 零点前由内置读取器理解"),
    "noted": (" Note: {list}.", " 注意：{list}。"),
    "assumed": (" Assumed: {list}.", " 假设：{list}。"),
}  # fmt: skip


GRIDS = {
    "a decade grid": "数量级",
    "doublings": "倍增",
    "every whole number": "整数",
    "steps of 0.1": "步长 0.1",
    "5 values, evenly spaced": "等距 5 个值",
}
"""How a range became a list, in Chinese."""


say = Phrasebook(SENTENCES).say
"""The sentence in the asker's language."""
