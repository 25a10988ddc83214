# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Cues for each intent, and which one a message has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agent.reader.numbers import FLAGS

Intent = Literal[
    "compare", "sweep", "train", "evaluate", "schedule", "modify", "cancel", "status", "explain", "gpu_status",
    "quota", "silence", "help", "chitchat", "clarify", "refuse",
]  # fmt: skip
PLANNING: frozenset[Intent] = frozenset({"compare", "sweep", "train", "evaluate", "schedule", "modify"})
GPU = r"(?:gpus?|graphics cards?|cards?|[abhlv]\d{2,3}s?|rtx ?\d+s?|显卡|卡|显存|vram|cluster|集群|nodes?)"
CUES: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern, FLAGS)
    for name, pattern in {
        "silence": r"\b(?:un)?(?:mute|silence|snooze)\b|do not disturb|\bdnd\b|(?:stop|no more|no|pause|disable|turn off|mute)\s+(?:\S+\s+){0,4}(?:alerts?|notifications?|pings?|reminders?|warnings?)\b|(?:stop|no more|pause|disable|turn off|hold|suppress)\s+(?:the |all |your |those |these |sending |any |with the |me )*(?:alert\w*|notif\w*|ping\w*|remind\w*|warn\w*|messages?|spam\w*)|(?:don'?t|do not|stop|quit)\s+(?:alert|notify|ping|remind|bother|page|message|spam|dm|warn|tagg?)\w*|(?:alert|notification|reminder)s?\s+(?:off|on again|back on)|(?:turn|switch)\s+(?:alerts?|notifications?)\s+(?:back )?(?:off|on)|be quiet|\bshut up\b|\bhush\b|leave me alone|no (?:more )?(?:spam|noise)\b|闭嘴|quiet (?:mode|hours|until)|(?:别|不要|停止|关掉|关闭|静音|屏蔽|暂停|先别|停)[^,.;]{0,10}(?:告警|提醒|通知|报警|消息|警报|推送|吵|打扰|@我|艾特|预警)|静音|免打扰|勿扰|(?:告警|提醒|通知|报警|警报)[^,.;]{0,8}(?:关|停|静音|屏蔽|恢复|打开)|(?:提醒|告警|通知|报警|消息)[^,.;]{0,6}(?:别|不要|不用)|(?:恢复|打开)(?:告警|提醒|通知|报警)|通知を(?:止|オフ)|stummschalten|silencia",
        "quota": r"\bquotas?\b|\ballowance\b|\busage\b[^,.;]{0,12}(?:this|last|so far)|(?:gpu|card)[- ]?(?:hours?|hrs?|h|time|budget|credits?)[^,.;]{0,30}(?:left|remain\w*|used|balance|do i have|have i|burn\w*|spent?|consum\w*|this (?:week|month))|how (?:many|much)\s+(?:gpu|card|compute)?[- ]?(?:hours?|hrs?|time|budget|credits?)[^,.;]{0,40}(?:left|remain|used|use|have|spent|burn|consum)|(?:give|grant|allocate|add|raise|increase|top ?up|set|transfer|reduce|lower|cut)\b[^,.;]{0,30}(?:gpu|card)[- ]?(?:hours?|hrs?|h\b)|配额|额度|卡时|(?:还剩|剩余|用了|用掉|花了|剩)[^,.;]{0,8}(?:gpu\s*)?(?:小时|时长|机时|算力)|机时|(?:给|批|分|加)[^,.;]{0,10}\d+\s*(?:个)?(?:gpu\s*)?(?:小时|卡时)|my budget|budget left|remaining budget|(?:get|have|need|want|request|borrow)\b[^,.;]{0,14}\d+\s*(?:more\s*)?(?:extra\s*)?(?:gpu|card)[- ]?(?:hours?|hrs?)|kontingent|cuota",
        "gpu_status": rf"(?:free|idle|available|spare|empty|unused|busy|open|libre|frei|свободн\w*)\b[^,.;]{{0,16}}{GPU}|{GPU}[^,.;]{{0,30}}(?:\bfree\b|\bidle\b|available|busy|in use|status|utili[sz]ation|\butil\b|usage|temp(?:erature)?\b|memory|occupied|taken|空|闲|温度|状态|占用|使用率|利用率|使用情况|情况|谁|剩|多少|几张|libres?|frei|disponibles?|占|用着|满)|(?:who|what|any(?:one|body)|some(?:one|body))(?:'s| is| are)?\s+(?:else )?(?:using|on|running on|hogging|occupying)\s+(?:the |all |our )*(?:gpus?|cards?|gpu ?\d|[abhlv]\d{{2,3}}s?)|nvidia-?smi|gpu-monitor|(?:有|还有|几|多少|哪些?|剩)[^,.;]{{0,8}}(?:空|闲|可用|能用|没人用)?的?\s*(?:gpu|显卡|卡)(?!时)(?:[^,.;]{{0,10}}(?:空|闲|用|没|吗|\?|剩|在))?|谁[^,.;]{{0,6}}(?:占|用)[^,.;]{{0,6}}(?:gpu|卡)|(?:gpu|卡)[^,.;]{{0,6}}谁|显存[^,.;]{{0,10}}(?:多少|剩|占|用|够)|(?:how (?:hot|full|busy|loaded))[^,.;]{{0,16}}{GPU}|空い(?:て|た)[^,.;]{{0,6}}gpu|gpu[^,.;]{{0,8}}空|how many (?:gpus?|cards?)|which (?:gpus?|cards?)|show (?:me )?(?:the )?(?:gpus?|cards?)|^(?:gpus?|cards?|/gpu-monitor)\??$|남는\s*gpu|gpu[^,.;]{{0,6}}(?:남|비었|사용)",
        "cancel": r"\b(?:cancel|abort|terminate|halt|scrap)\b|\bkill\b|(?<!early )(?<!early-)\bstop\b(?!ping)(?! (?:after|at|when|if|early))|\bpause\b|call (?:it|that) off|hold off|ctrl-?c\b|put (?:it|that|this) on hold|(?:never ?mind)[^,.;]{0,20}|don'?t run|取消|停(?:掉|止|下|了|一下|$)|终止|中止|别跑了?|不(?:用)?跑了|不要跑|杀(?:掉|死)|暂停|撤(?:回|销)|算了|キャンセル|止めて|中止して|abbrechen|\bbrich\b|\bbeende|halte\b|stopp|cancela|det[eé]n|\bp[aá]ra(?:lo|la|r)?\b(?= (?:exp|el|la|los|las))|annule|arr[eê]te|interromp|отмени|중지|취소|停止",
        "status": r"\bstatus\b|cu[aá]nto (?:falta|queda)|combien de temps|quanto manca|wie viel noch|あとどれ|いつ終|\bwhat\b[^,.;?]{0,24}\b(?:did|does) (?:run|it|exp|that|this|they)\b|\b(?:will|would|can|could)\b (?:it|this|that|they|everything|my \w+|exp-?\d+)\b[^,.;]{0,30}(?:done|finish\w*|ready|complete|over|make it)\b|(?:曲线|loss|日志)[^,.;]{0,6}(?:发|画|看)(?!散)|\b(?:what|which) (?:epoch|step)\b|\b(?:current|latest)\b[^,.;]{0,20}(?:loss|acc\w*|epoch|step|metrics?|lr)\b|\bprogress\b|\beta\b|\bhow'?s (?:it|that|this|everything|my|the|our)\b|how many (?:runs?|jobs?|experiments?|epochs?|trials?)\b|queue position|\bdid\b[^,.;]{0,30}(?:finish|complete|end|converge)\w*|how (?:far|long (?:until|till|will|left|to go|more)|much longer|is (?:it|that|everything|my|the|our|exp)|are (?:my|the|our|things|they)|'?s (?:it|my|the|exp))|(?:is|are|has|have)\b[^,.;]{0,40}(?:done|finished|finish|complete|running|still|ready|over|converged)\b|done yet|finished yet|when (?:will|is|does|do|are)\b[^,.;]{0,40}(?:done|finish\w*|ready|end|complete|results?)|what(?:'s| is| are)?\s+(?:currently |still )?(?:running|queued|in the queue|pending)|(?:list|show)\s+(?:me )?(?:all )?(?:my|the|our|running|queued|recent|today'?s)\s*\w*\s*(?:jobs?|runs?|experiments?|queue)|what(?:'?s| is| was| were) (?:the )?(?:val|test|train|current|latest|best|highest|lowest|final)[^,.;]{0,20}(?:so far|now|acc\w*|loss|\?)|so far|\b(?:learning|training|loss|validation|val|accuracy|acc) curves?\b|when (?:can|could|should|may) (?:i|we)\b[^,.;]{0,20}\b(?:expect|get|see|have|look|check)|any (?:news|update|results?)|update on|\b(?:an?|some|quick|another) update\b|keep me posted|\b(?:stuck|hanging|hung|frozen)\b|wie lange|where (?:is|are) (?:my|the|we)|position in (?:the )?queue|which epoch|进度|进行到|到哪(?:一步|里|儿)|(?:什么|啥)情况|情况(?:如何|怎么样|怎样)|跑到(?:哪|第几)|跑完(?:了)?(?:吗|没)|跑得?怎么样|怎么样了|(?:还要|还需|还得|要|需要)(?:多久|多长时间|多少时间|几个?小时)|什么时候(?:能|可以)?(?:跑完|结束|好|完成|出结果)|几点(?:能|可以)?(?:跑完|结束|好|完成|出)|(?:完成|结束|好|出结果|训完)(?:了)?(?:吗|没有?)|状态|在跑(?:什么|吗|哪些)|排(?:到|在)第?几|排队|还在(?:跑|训)|有结果了?吗|现在(?:的)?(?:loss|acc|准确率|精度)|到第?几(?:个)?(?:轮|epoch)|剩(?:余|下)?多(?:久|少时间)|estado|wie weit|fertig|進捗|終わ(?:り|った|る)|статус|готово|진행|끝났|où en est|(?:just |only )?(?:show|plot|draw)\b[^,.;]{0,30}(?:curve|loss|acc\w*|plot|log|metrics?)|as a plot|把[^,.;]{0,14}(?:曲线|loss|日志)[^,.;]{0,8}(?:发|画|看)|(?:看|发|画)(?:一下|下|看)?[^,.;]{0,12}(?:曲线|日志|loss|结果)",
        "explain": r"\bwhy\b|\bany (?:ideas?|clue|thoughts)\b|what (?:\w+ )?did you (?:assume|pick|choose|change|decide)|(?:which|your) assumptions|(?:你|都)?(?:假设|默认)了(?:什么|哪些|啥)|how did (?:it|that|they|the)\b|\btrust\b|what (?:killed|broke|crashed|stopped|made)|(?:how much|by how)\b[^,.;]{0,20}(?:win|better|worse|faster|beat)|\bwin\b|可信|靠谱|可靠|解读|(?:什么|啥)错|报错|错误|how come|what (?:happened|went wrong|does (?:it|that|this|the)|do (?:these|the|those))|what(?:'s| is) (?:wrong|the (?:reason|cause|problem|difference|takeaway|conclusion|verdict))|\bexplain\b|\breason\b|(?:is|are|was|were)\s+(?:that|the|this|it|those|these)\b[^,.;?]{0,30}(?:real|significant|noise|meaningful|luck|chance|normal|expected|overfit\w*|reliable|plausible)|\bsignifican(?:t|ce)\b|(?:which|who)\b[^,.;?]{0,40}(?:better|best|worse|worst|won|winner|wins|faster|higher)|statistically|how (?:much )?(?:better|sure|confident|big is the (?:gap|difference))|summar(?:y|i[sz]e)|interpret|diagnos|traceback|stack ?trace|debug (?:it|this|run|why)|conclu|overfit(?:ting)?\?|did .{0,30}(?:fail|crash|diverge|die|oom)|what caused|为什么|为啥|怎么回事|咋回事|咋(?:了|挂|崩)|怎么(?:挂|崩|失败|会|又|死|停|不收敛|nan|就|这么)|什么原因|啥原因|原因|(?:哪|那)(?:个|一个|种)[^,.;]{0,10}(?:好|高|强|快|差)|显著|真的?比[^,.;]{0,24}(?:好|强|快|高)|比[^,.;]{0,24}(?:好|强|快|高)(?:吗|多少|很多)|(?:差距|差异|差别|提升)[^,.;]{0,8}(?:真|吗|大|可信|明显|随机|噪声)|解释|分析(?:一?下)|总结|说明(?:一下|了)|是不是过拟合|过拟合了|收敛了吗|なぜ|どうして|warum|por qu[eé]|pourquoi|почему|왜",
        "help": r"教我|^\W*help\b|\bsyntax\b|is there (?:a|any) way|is it possible|\bhow (?:do|can|could|would|should) (?:i|we|you|one)\b|\bhow to\b|what (?:can|do|could|are) (?:you|u|i|we)\b|how does (?:this|it|overnight) work|what (?:commands|models|datasets|data sets|things|kind of)\b[^,.;]{0,40}|which (?:models|datasets|data sets|commands|optimizers)\b[^,.;]{0,30}(?:support|available|know|have|can)|do you (?:support|know|have|understand)|can (?:you|i|we|it) (?:use|bring|upload|mount|add|attach|give|handle|support|do|run my|see|get|read|download|export)\b|\bmanual\b|\bdocs?\b|documentation|tutorial|\busage\b|\bexamples?\b(?! of)|\bexamples? of (?:an? )?(?:\w+ )?(?:requests?|messages?|commands?|quer(?:y|ies)|sweeps?|plans?|comparisons?|schedules?)\b|where (?:do|can)\b[^,.;]{0,40}\b(?:i|we|find|go)\b|where (?:are|is)\b[^,.;]{0,40}(?:saved|stored|logs?|checkpoints?|results)|can (?:you|it|i|we)\b[^?]{0,30}\b(?:code|scripts?|jax|tensorflow|docker|notebooks?|distributed|my own)\b|命令|指令|有(?:哪些|什么)功能|what does .{1,30} (?:mean|do)\b|帮助|使用(?:说明|方法|手册)|怎么(?:用|使用|提交|上传|配置|添加|加|写|操作|设置|开始|查|看|取消|修改|指定|改|停|申请|导出|下载|让|接入|把)|如何|你(?:会|能|可以)(?:做|干|帮)?(?:些)?(?:什么|啥|哪些|干嘛)|支持(?:哪些|什么|不支持)|支持.{0,16}吗|能不能(?:用|上传|自定义|跑自己)|(?:有|看)(?:没有)?(?:文档|教程|例子|示例|说明)|使い方|ヘルプ|hilfe|ayuda|aide|помощь|도움말|사용법",
        "chitchat": r"^\W*(?:hi|hello|hey|yo|sup|morning|good (?:morning|evening|night|afternoon|day)|gm|gn|thanks?|thank you|thx|ty|cheers|lol|haha+|nice|great|awesome|cool|ok(?:ay)?|bye|see you|welcome|congrats?|happy|merry|wow|well done|good (?:job|bot|work)|love (?:it|you|this)|you(?:'re| are) (?:the best|great|awesome|amazing|funny)|how are you|what'?s up|who are you|are you (?:a |an )?(?:human|bot|real|ai|robot|there|ok)|tell me a joke|sorry|no worries|np|danke|gracias|merci|hola|bonjour|guten|ciao|привет|спасибо|ありがとう|おはよう|お疲れ|こんにちは|안녕|고마워|감사|谢谢|多谢|感谢|辛苦|早(?:上好|啊|安|呀|$)|你好|您好|哈哈+|嗨|晚安|再见|拜拜|加油|恭喜|真棒|厉害|太棒|太好|不错|好的|收到|嗯+|哦|在吗|牛|赞|666)(?![A-Za-z])|\b(?:coffee|lunch|dinner|weather|weekend plans|joke|holiday|vacation|birthday|football|beer|pizza|movie)\b|周末愉快|节日快乐|新年|生日|吃(?:饭|啥|什么|了吗)|天气|奶茶|咖啡|下班|放假|聊(?:聊|天)|讲个笑话|你是谁|累(?:死|了|啊)|困(?:死|了)",
        "modify": r"\b(?:re-?run|redo|repeat|reproduce|replicate|again|once more|one more time|same|instead|change|switch|swap|replace|modify|update|edit|adjust|tweak|bump|increase|decrease|raise|lower|reduce|double|halve|half|twice|triple|add|also|plus|include|drop|remove|exclude|without|except|minus|skip|extend|continue|resume|retry|but (?:with|on|at|use)|more|fewer|less|longer|shorter|use|set|make it|only|just|keep|everything else|otherwise|go back|undo|revert)\b|回到|用回|撤销|退回|re-?run|重(?:新)?(?:跑|训|做|来|试)|复现|重现|再(?:跑|来|训|试|加|做|多|补)|改|换|加(?!油)|减|去掉|删|不要|翻倍|加倍|减半|一样|同样|其他(?:的)?不变|别的不变|其余不变|只(?:跑|要|用|留)|保留|提(?:高|到|升)|降(?:低|到)|调|增加|减少|延长|继续|接着|恢复|也(?:跑|试|加|用)|除了|用\s*\d|多(?:跑|加|训)|补|ohne|nochmal|noch ?mal|de nuevo|encore|もう一度|다시|ещ[её]",
        "evaluate": r"\bevaluat\w*|\beval\b(?!\s*(?:every|each|per))|\bbenchmark\w*|\binference\b|zero[- ]?shot|few[- ]?shot|what(?:'s| is) the (?:top-?\d|acc\w*|f1|map|miou|latency|throughput|perplexity|performance|test acc\w*)|how accurate|\btest(?:ing)? (?:\S+ ){0,4}(?:checkpoint|ckpt|model|weights|accuracy|acc|performance|set)|\bmeasure\b|(?<![a-z])ckpt|checkpoint[^,.;]{0,20}\bon\b|\bscore\b.{0,20}\bon\b|how (?:good|well) (?:is|does)|评估|评测|测评|验证一下|(?:测|测试|跑)(?:一?下|个)?[^,.;]{0,24}(?:准确率|精度|延迟|吞吐|速度|性能|指标|mAP|top-?1|推理|zero)|推理|零样本|在测试集上|evaluiere|evalúa|évalue[rz]?|評価|평가|оцени",
        "compare": r"\bvs\b\.?|\bversus\b|\bcompar\w*|\bagainst\b|head[- ]to[- ]head|\bbetter than\b|which (?:one )?(?:is|works|performs|does|of|model|optimi[sz]er)\b|\bwhich\b.{0,30}\bbetter\b|with (?:and|&|/) ?without|does .{1,30}\b(?:help|matter|improve|hurt|work)|\bablat\w*|difference between|\beffect of\b|\bimpact of\b|对比|比较|比一(?:比|下)|对照|哪(?:个|种|一个)?(?:更|比较)?(?:好|强|快|优)|消融|有无|有没有用|影响|谁(?:更)?(?:好|强|快)|pk|差(?:别|异|多少)|区别|vergleich\w*|compara\w*|comparer?|comparez|confront\w*|比べ|比較|сравни\w*|비교|porównaj|karşılaştır",
        "sweep": r"\bsweep\w*|\bgrid\b|\bsearch\w*|\btun(?:e|ing)\b(?<!fine-tune)(?<!finetune)(?<!fine-tuning)(?<!finetuning)(?<!fine tune)(?<!fine tuning)|hyper-?param\w*|\bhpo\b|\bscan\b|\btry (?:out )?(?:different|several|various|a few|all|lr|learning|batch|\d|a )|\btry\b|\bfind (?:me |us |out )?(?:the |a )?(?:best|optimal|good|right)|best (?:lr|learning rate|batch|weight decay|hyper)|optimi[sz]e (?:the )?(?:lr|learning|hyper)|\bbayes\w*|\boptuna\b|\brange of\b|\bvary(?:ing)?\b|\btrials?\b|扫(?:一?下|描)?|搜索|网格|调(?:一?下)?参|超参|寻优|找(?:一?个|到|出)?最(?:好|佳|优)|分别(?:用|取|试|跑)|试(?:试|一?下)?|遍历|贝叶斯|各种|rejilla|barrido|suche|スイープ|探索|グリッド|перебор|탐색",
        "train": r"\b(?:re-?)?train\w*|fine-?\s?tun\w*|\bfit\b|\brun\b|\blaunch\b|\bstart\b|\bpre-?train\b|\bjob\b|\bkick off\b|\bexperiment\b|训练?|跑|微调|炼(?:丹)?|实验|学習|訓練|trainier\w*|entrena\w*|entra[iî]n\w*|allena\w*|обучи\w*|학습|훈련|treine",
    }.items()
}  # fmt: skip
HOW_TO = re.compile(
    r"\bhow (?:do|can|could|should|would) (?:i|we|you|one)\b|\bhow to\b|如何|怎么(?:才能|样才能)?(?:用|使用|提交|上传|配置|添加|加|写|操作|设置|取消|修改|指定|改|停止|申请|导出|下载|接入|看|查)",
    FLAGS,
)
CARDS = re.compile(r"\b(?:gpus?|cards?|cluster|nodes?|vram|[ahv]100s?)\b|显卡|卡(?!时|住|了|在|死)|集群|显存", FLAGS)
NOT_RUN = re.compile(r"(?:don'?t|do not) run|别跑|不要跑|不(?:用)?跑", FLAGS)
"""Stops everything, or leaves out the value that it stands with."""
NO_COMPARISON = re.compile(
    r"(?:不用|不要|不必|别|不)(?:再)?(?:对比|比较|比)(?!例|如)|\b(?:no|without|skip the|don'?t|not)\s+(?:any\s+)?compar\w*",
    FLAGS,
)
TRAINS = re.compile(r"\b(?:re-?)?train|fine-?tun|epochs?|训练|微调|轮", FLAGS)
NO_TRAINING = re.compile(
    r"\b(?:no|not|without|don'?t|dont|never)\s+(?:any\s+|re-?)?(?:train|fine-?\s?tun)\w*|\btrain(?:ing)? (?:split|set)\b|(?:不|别|无需|不用|不要)(?:再|重新)*训练?|训练集",
    FLAGS,
)
"""Mentions of training that ask for none."""
WHY = re.compile(r"^\W*(?:why(?! (?:not|don'?t (?:we|you)))|how come|为什么(?!不试)|为啥)", FLAGS)
REPORT = re.compile(
    r"\b(?:reports?|write-?up|findings)\b|\b(?:results?|outcome) (?:of|for|from)\b|\bexp-?\d+'?s? results?\b|报告|(?:看|给|发)[^,.;]{0,20}结果|的结果",
    FLAGS,
)
STORED = re.compile(
    r"\bevaluat\w*|\beval\b|\bbenchmark\w*|checkpoint|\bckpt\b|test set|评估|评测|测评|推理|测试集|zero[- ]?shot", FLAGS
)
"""Cues for measuring what a thread's experiment has trained."""
TARGETS = re.compile(
    r"\bexp(?:eriment)?[-_ ]?\d+(?:\s*/\s*\d+)?|实验\s*\d+|\b(?:run|job|trial)\s*#?\d+\b|第\s*[\d一二三四五六七八九十]+\s*(?:个|次)?(?:run|实验|任务)?|#\d+\b",
    FLAGS,
)
VAGUE = re.compile(
    r"\b(?:faster|better|quicker|improve|optimi[sz]e|speed (?:it|this|that|things) up|smarter|good enough|properly|something|whatever|anything|stuff|the thing|the usual|the best|as discussed|do your magic|fix it|make it work|it)\b|快(?:一?点|些)|好(?:一?点|些)|优化(?:一?下)?|提升(?:一?下)?|随便|老样子|你懂的|搞(?:一?下|定)|弄(?:一?下|好)|那个(?:实验|模型)?|改进",
    FLAGS,
)
LAB = re.compile(
    r"\b(?:exp-?\d+|models?|train\w*|runs?|experiments?|gpus?|jobs?|epochs?|lr|batch|seeds?|data ?sets?|loss|learning rates?|batch(?:es| sizes?)?|weight decay|optimi[sz]ers?|hyper-?param\w*|accuracy|checkpoint|network|sweep|finetun\w*|faster|better)\b|模型|训练?|跑|实验|数据|显卡|卡|学习率|种子|轮|快|优化|准确率|任务|参数",
    FLAGS,
)
QUESTION = re.compile(
    r"\?|^\W*(?:what|why|how|when|which|who|where|is|are|was|were|did|does|do|can|could|has|have|any)\b|吗|呢|什么|怎么|为什么|多少|哪|几|是不是|か[？?。]?$",
    FLAGS,
)
DO_IT = re.compile(
    r"^\W*(?:please |pls |can you |could you |kindly |帮我|请|麻烦)*(?:re-?run|run|train|launch|start|compare|sweep|fine-?tune|evaluate|benchmark|queue|submit|try|grid|跑|训|对比|比较|微调|扫|试|用|在|把)",
    FLAGS,
)


@dataclass(frozen=True)
class Facts:
    """What the rest of the reader found, as far as the intent depends on it."""

    models: int
    datasets: int
    many: bool
    """True when an axis has several numbers."""
    many_words: bool
    """True when an axis has several words, or is both on and off."""
    settings: bool
    """True when any value of a run was stated (an axis, epochs, seeds, cards, priority)."""
    unknown: bool
    previous: bool
    schedule: bool
    search: bool
    renames: bool
    """True when a model is named that the thread's plan does not have."""
    excludes: bool
    """True when a value of the thread's plan is not wanted any more."""
    tunes: bool
    """True when the best value of something is asked for."""


def cue(name: str, text: str) -> bool:
    """True when the text has a cue for this intent."""
    return bool(CUES[name].search(text))


GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|yo|sup|(?:good )?morning|good (?:evening|night|afternoon|day)|gm|gn|bye|see you|welcome|how are you|what'?s up|who are you|are you|danke|hola|bonjour|guten|ciao|привет|おはよう|こんにちは|お疲れ|안녕|早(?:上好|啊|安|呀|$)|你好|您好|嗨|晚安|再见|拜拜|在吗|你是谁)(?![A-Za-z])",
    FLAGS,
)
THANKS = re.compile(
    r"^\W*(?:thanks?|thank you|thx|ty|cheers|nice|great|awesome|cool|ok(?:ay)?|well done|good (?:job|bot|work)|lol|haha+|love|congrats?|wow|np|no worries|sorry|happy|merry|gracias|merci|спасибо|ありがとう|고마워|感谢|谢谢|多谢|辛苦|哈哈+|加油|恭喜|真棒|厉害|太棒|太好|不错|好的|收到|嗯+|哦|牛|赞|666)(?![A-Za-z])",
    FLAGS,
)


def small_talk(text: str) -> str:
    """Key of the sentence that answers small talk: a greeting, thanks, or what the lab cannot help with."""
    if GREETING.search(text):
        return "chitchat"
    return "thanks" if THANKS.search(text) else "off_topic"


def choose(text: str, facts: Facts) -> tuple[Intent, bool]:
    """The intent, and whether a cue speaks for it (False when nothing better was found)."""
    plan = facts.models > 0 and (
        facts.datasets > 0 or facts.settings or not QUESTION.search(text) or bool(DO_IT.search(text))
    )
    command = _command(text, facts, plan)
    if command:
        return command, True
    if facts.previous and STORED.search(text) and not re.search(r"\b(?:re-?)?train|rerun|重|再", text, FLAGS):
        return "evaluate", True
    if facts.previous and _changes(text, facts):
        if facts.schedule and re.search(
            r"when|once|after|等|完|every|each|daily|nightly|weekly|monthly|\bat \d|每", text, FLAGS
        ):
            return "schedule", True
        return "modify", True
    if facts.models or facts.datasets or facts.unknown:
        return _planning(text, facts), True
    return _rest(text, facts)


def _command(text: str, facts: Facts, plan: bool) -> Intent | None:
    """Intents that ask about or act on what is there already."""
    if HOW_TO.search(text) and not facts.settings and not facts.models:
        return "help"
    if cue("silence", text) and not (facts.models and facts.datasets):
        return "silence"
    stops = cue("cancel", NOT_RUN.sub(" ", text) if facts.excludes else text)
    stops = stops and not (facts.previous and facts.renames)
    if facts.previous and not facts.datasets and stops and not cue("modify", text):
        return "cancel"
    if WHY.search(text) and not DO_IT.search(text) and not facts.settings:
        return "explain"
    if plan and not TARGETS.search(text) and not (facts.previous and cue("explain", text)):
        return None
    if plan and facts.datasets and DO_IT.search(text):
        return None
    if stops and not (facts.previous and re.search(r"(?:stop|停).{0,12}(?:after|at epoch|early|到)", text, FLAGS)):
        return "cancel"
    if cue("quota", text) and not facts.models:
        return "quota"
    if cue("gpu_status", text) and not facts.models and not (facts.settings and facts.previous) and not facts.schedule:
        return "gpu_status"
    asks = bool(QUESTION.search(text)) or len(text) < 40
    about = facts.previous or bool(TARGETS.search(text)) or (not facts.models and bool(LAB.search(text)))
    if REPORT.search(text) and (facts.previous or TARGETS.search(text)) and not facts.settings and not facts.models:
        return "explain"
    if (
        len(TARGETS.findall(text)) > 1
        and not facts.models
        and re.search(r"better|worse|compar|vs|differ|比|好|差", text, FLAGS)
    ):
        return "explain"
    if cue("explain", text) and (asks or not facts.settings) and about:
        return "explain"
    if cue("help", text) and not facts.settings:
        return "help"
    if (
        (cue("status", text) or (TARGETS.search(text) and re.search(r"怎么样|如何", text)))
        and (asks or not facts.settings)
        and not facts.schedule
        and not (facts.previous and facts.settings and cue("modify", text))
    ):
        return "status"
    return None


def _changes(text: str, facts: Facts) -> bool:
    """True when the message changes the plan of its thread rather than asking for a new experiment."""
    if (
        facts.models
        and facts.datasets
        and not re.search(r"\bsame\b|instead|换|改|again|rerun|re-run|再|一样|同样|不变", text, FLAGS)
    ):
        return False
    again = facts.schedule and cue("train", text)
    return again or cue("modify", text) or facts.settings or facts.models > 0 or facts.datasets > 0


def _planning(text: str, facts: Facts) -> Intent:
    if facts.schedule:
        return "schedule"
    evaluates = cue("evaluate", text)
    trains = bool(TRAINS.search(NO_TRAINING.sub(" ", text)))
    if evaluates and not trains and not cue("sweep", text):
        return "evaluate"
    sweeps, compares = cue("sweep", text) or facts.search or facts.tunes, cue("compare", NO_COMPARISON.sub(" ", text))
    if compares and (not sweeps or facts.models > 1 or facts.many_words):
        return "compare"
    if facts.tunes and not facts.many_words and (facts.models < 2 or facts.many):
        return "sweep"
    if sweeps and (facts.many or facts.search):
        return "sweep"
    if facts.models > 1 or (facts.many_words and not facts.many):
        return "compare"
    return "sweep" if facts.many else "train"


def _rest(text: str, facts: Facts) -> tuple[Intent, bool]:
    """Messages that name neither a model nor a data set."""
    if cue("quota", text):
        return "quota", True
    if cue("chitchat", text) and not (
        facts.settings or re.search(r"\b(?:run|train|sweep|compare)\b|跑|训练", text, FLAGS)
    ):
        return "chitchat", True
    if cue("help", text):
        return "help", True
    if (
        CARDS.search(text)
        and not facts.settings
        and not re.search(r"\b(?:run|train|use|start)\b|跑|训|用满", text, FLAGS)
    ):
        return "gpu_status", False
    if facts.previous and QUESTION.search(text) and LAB.search(text):
        return "status", False
    if TARGETS.search(text) and not facts.previous and cue("modify", text):
        return "modify", True
    if any(cue(name, text) for name in ("compare", "sweep", "train", "evaluate")):
        return "clarify", False
    if LAB.search(text) or VAGUE.search(text) or facts.settings or facts.search:
        return "clarify", False
    return ("clarify", False) if QUESTION.search(text) is None and cue("modify", text) else ("chitchat", False)
