# ruff: noqa: E501  (a pattern broken over lines is harder to read than a long one)
"""Requests that are refused whatever else they say: secrets, shell commands, injections, other people's runs."""

from __future__ import annotations

import re

from agent.reader.numbers import FLAGS


def _rx(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


SECRET = r"(?:(?:slack|openai|api|access|auth|bot|wandb|hf|huggingface|github|aws|app|your|the|bearer|secret)[ _-]*)(?:tokens?|(?:api )?keys?|credentials?|secrets?|passwords?)|\bpasswords?\b|\bcredentials?\b|\bsecrets\b|api[ _-]?keys?|\.env\b|env(?:ironment)? var(?:iable)?s?|os\.environ|\bprintenv\b|id_rsa|\.netrc\b|\.(?:bash|zsh)_history|\.git-credentials|\.kube\b|authorized_keys|ssh keys?|private keys?|/etc/(?:passwd|shadow)|~/\.ssh|\.aws|config\.yaml|密码|密钥|口令|凭证|令牌|私钥|(?:slack|openai|api|访问|机器人)\s*[_-]?的?\s*(?:token|key|密钥)|环境变量|系统提示词?|system prompt|(?:hidden|initial|original) (?:prompt|instructions)|xox[bap]-|OPENAI_API_KEY|SLACK_\w*TOKEN"
SHOW = r"print|show|send|give|tell|reveal|display|dump|paste|post|leak|echo|cat|read|what(?:'s| is| are)|list|share|export|upload|copy|repeat|发|看|打印|告诉|显示|贴|给我|输出|导出|泄露|读|是什么|是多少|多少|复述"
DANGERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("refuse_injection", _rx(r"(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+|any\s+|everything\s+|the\s+|your\s+|my\s+|previous\s+|prior\s+|above\s+|earlier\s+|of\s+|system\s+|these\s+|those\s+|safety\s+)*(?:instructions?|rules?|prompts?|guidelines?|guardrails|safety|restrictions|polic(?:y|ies)|you were told|above)|(?:forget|ignore|disregard)\s+(?:what|everything|anything|all)\s+(?:that\s+)?(?:you|i|they)\b[^,.;]{0,16}(?:told|said|instructed|learned)|(?:忽略|无视|忘记|忘掉|不要管|绕过|跳过)(?:你|之前|上面|以上|前面|所有|一切|全部|系统|的|任何|原来)*(?:指令|规则|提示|限制|要求|设定|安全|约束)|you are now (?:a|an|in|dan|root|admin|the)\b|jailbreak|developer mode|pretend (?:to be|you are|you're)|act as (?:root|admin|a shell|an? unrestricted)|\bsystem\s*:\s|<\|?(?:im_start|system)|new instructions?:|你现在是(?:管理员|root|一个没有)|假装你?是|越狱")),
    ("refuse_secret", _rx(rf"(?:{SHOW}).{{0,60}}?(?:{SECRET})|(?:{SECRET}).{{0,30}}?(?:{SHOW})")),
    ("refuse_shell", _rx(r"^\W*(?:cat|less|tail|head|ls|cd|scp|rsync)\s+[~/.]|\brm\s+-\w*[rf]|\bsudo\s+\w|(?:;|&&|\|\||\|)\s*(?:rm|curl|wget|cat|sh|bash|python3?|nc|dd|mv|chmod|chown|shutdown|reboot|kill|echo|touch|ls|sudo|env|export|scp|ssh|mkfs|poweroff|true|id|whoami)\b|\$\([^)]*\)|\$\{[^}]*\}|\b(?:curl|wget)\s+(?:-\w+\s+)*(?:https?:|\S+\.\w+)|\bchmod\s+[\d+-]|\bmkfs\b|\bdd\s+if=|:\(\)\s*\{|/bin/(?:ba)?sh|\bdrop\s+(?:table|database)\b|os\.system|subprocess\.|\beval\(|\bexec\(|__import__|<script|\bunion\s+select\b|';\s*--|>\s*/dev/|\.\./\.\./|\bkill(?:all)?\s+-9|\bnvidia-smi\s+(?:-r|--gpu-reset)|\bgit\s+push\s+(?:-f|--force)|\bpip\s+install\s+(?:git\+|https?:)")),
    ("refuse_abuse", _rx(r"\b(?:mine|mining)\b.{0,20}(?:bitcoin|crypto|monero|eth(?:ereum)?|btc|coins?)|xmrig|挖矿|挖比特币|比特币|\bddos\b|\bhack(?:ing)?\b|\bexploit\s|入侵|黑进|exfiltrat\w*|\b(?:upload|copy|send|leak)\b[^,.;]{0,40}\b(?:to|into|on)\s+(?:my\s+)?(?:dropbox|google drive|gdrive|personal|pastebin|home server|usb)|crack(?:ing)? (?:passwords?|hash\w*)|hashcat|破解密码|brute[- ]?force")),
    ("refuse_dishonest", _rx(r"(?:fabricate|falsify|fake|make up|invent|forge|fudge|doctor)\s+(?:the |some |a |my |our |good |better )*(?:results?|numbers?|accurac\w+|metrics?|figures?|curves?|data points?|seeds?|scores?)|(?:编造?|伪造|造假|捏造|篡改|改一下)(?:一?下|一?些|一?个|一?组|点)?(?:的)?(?:实验)?(?:结果|数据|数字|准确率|指标|曲线)|cherry[- ]?pick|\b(?:pretend|claim|lie)\b[^.;]{0,40}(?:accurac|results?\b|\bacc\b|metric|score|\d\s?%)|(?:hide|drop|leave out|delete|remove) the (?:bad|worst|failed|diverged) (?:seeds?|runs?|results?) (?:from|in|before)|(?:change|edit|set|report|write)\s+(?:the\s+)?(?:val |test |reported )?(?:acc(?:uracy)?|results?|metrics?)\s+(?:of \S+ )?(?:to|as)\s+\d|把[^,.;]{0,20}(?:准确率|结果|指标|数字|acc\w*)\s*(?:改成|写成|改到|改为)")),
    ("refuse_destroy", _rx(r"(?:delete|wipe|erase|destroy|purge|format|clear)\s+(?:all\s+|every\s+|the\s+|everyone'?s\s+|our\s+|whole\s+|old\s+|my\s+)*(?:checkpoints?|data(?:sets?)?|disks?|results?|logs?|files?|database|redis|home|/\w+|experiments?|everything|history)|(?:delete|drop|wipe|flush|erase|nuke|purge)\s+(?:all\s+|every\s+|the\s+|our\s+|whole\s+|of\s+)*(?:(?:redis|valkey|db|database)\s+)?(?:keys?|tables?|db|database|redis|valkey|queues?)\b|\bflush(?:all|db)\b|(?:删除?|清空|清除|格式化|抹掉)(?:掉|了)?\s*(?:所有|全部|一切|整个|大家)?的?\s*(?:的)?(?:checkpoint|检查点|数据|磁盘|结果|日志|文件|数据库|记录|实验记录|模型文件|/\w+)|删库|(?:reboot|shut ?down|restart|power off|turn off)\s+(?:the\s+|all\s+)?(?:node|server|machine|host|cluster|box|gpu node|computer)s?|(?:重启|关闭|关掉|关机)(?:一下)?(?:服务器|节点|机器|主机|集群)|\b(?:reboot|shut ?down|power ?off)\s+(?:it|them|node\S*|everything)\b|\bssh\s+(?:in)?to\s+\S+\s+(?:and|then|&)\b|reset\s+(?:the\s+)?gpus?\b")),
    ("refuse_rules", _rx(r"(?:bypass|skip|circumvent|get around|ignore|disable|override|evade|remove|lift)\s+(?:the\s+|my\s+|all\s+|any\s+)*(?:quota|approval|limit|review|reservation|budget check|keeper|queue|permission|access control|safety check|audit)s?|without (?:asking|approval|permission|anyone (?:noticing|knowing)|confirmation)|(?:绕过|跳过|无视|关掉|关闭|解除)(?:一下)?(?:配额|审批|限制|额度|预留|权限|审核|审计|确认)|(?:use|take|release|grab|steal)\s+(?:the\s+)?(?:reserved|keeper)(?:'s)?\s*(?:gpu|card)|(?:use|using|take|borrow|charge|bill|on)\s+(?:it to\s+)?(?:(?:someone|somebody|anyone|anybody)(?: else)?|every(?:one|body)|@?[a-z]\w*)'s\s+(?:quota|budget|gpu[- ]?hours|allowance|account|credits?)\b(?<!today's quota)(?<!month's quota)(?<!week's quota)|(?:用|蹭|占|算在?)(?:别人|他人|其他人|老板|导师|师兄|师姐|同学|[小老阿][\u4e00-\u9fff])的?(?:头上|配额|额度|账号|卡时)|不用审批|make me (?:an? )?admin|give me (?:root|admin|sudo)|给我(?:管理员|root|最高)权限|把我(?:设|变|升)(?:为|成)管理员|as (?:root|admin)(?:istrator)?\b")),
)  # fmt: skip
STOPPING = r"(?:\bkill(?:ing)?|\bcancel(?:l?ing)?|\bstop(?:ping)?|\babort(?:ing)?|\bterminat(?:e|ing)|\bpreempt(?:ing)?|\bevict(?:ing)?|\bkick(?:ing)?|\bpaus(?:e|ing)|\bdelete|\bremove|\btake over|\bsuspend|停(?:掉|止|了)?|取消|杀(?:掉|死|了)?|删(?:掉|除)?|终止|中止|踢(?:掉|出|下)?|抢(?:占|走|一下)?|暂停|干掉|清掉|关掉)"
SURNAME = "[王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董潘袁蔡蒋余于杜叶程魏苏吕丁任卢姚沈钟姜崔谭陆范汪廖贾邹熊孟秦邱侯尹薛闫雷陶贺郝顾龚邵钱严戴]"
"""What the names of most people in China begin with."""
OTHERS = (
    _rx(rf"{STOPPING}\s+(?:all\s+|every\s+|the\s+|of\s+)*(?!my\b|mine\b|it'?s\b|that'?s\b|let'?s\b|what'?s\b)(?:@?[A-Za-z]\w*'s|@\w+(?:'s)?|everyone(?:'s| else'?s?)?|everybody(?:'s)?|(?:all )?other (?:people|users?|person)(?:'s|s')?|someone(?: else)?(?:'s)?|somebody(?: else)?(?:'s)?|his|her|their)\b.{{0,30}}"),
    _rx(rf"{STOPPING}[^,.;]{{0,40}}\b(?:of|by|from|belonging to|owned by)\s+(?!mine\b|my\b|the\b|this\b|that\b|it\b|exp|queue|run)(?:@\w+|everyone|everybody|all users|others?|other people|other users|somebody|someone)\b"),
    _rx(rf"{STOPPING}\s*(?:一下)?(?:别人|其他人|他人|所有人|大家|他|她|同学|师兄|师姐|师弟|师妹|导师|老板|[小老阿][\u4e00-\u9fff]|(?!我)[\u4e00-\u9fff]{{2,3}}(?<!全部)(?<!所有)(?<!正在)(?<!排队)(?<!剩下)(?<!现在)(?<!失败)(?<!刚才)(?<!之前)(?<!昨天)(?<!后面)(?<!上面)(?<!今晚))\s*的(?!都)"),
    _rx(rf"(?:把|将)\s*(?:别人|其他人|他人|所有人|大家|他|她|师兄|师姐|师弟|师妹|导师|老板|[小老阿][\u4e00-\u9fff]|{SURNAME}[\u4e00-\u9fff]{{1,2}}|@?[A-Za-z]\w*)\s*(?:的|正在跑的|在跑的|跑的|提交的)[^,.;]{{0,16}}{STOPPING}"),
    _rx(rf"{STOPPING}\s*@?(?!my|mine|exp|run|it)[A-Za-z]\w+\s*(?:的|正在跑的)"),
    _rx(rf"{STOPPING}\s+(?:whatever|what|everything|all(?: that)?|the (?:job|run|thing|experiment)s?(?: that)?)\s+(?!i\b|i'|we\b|you\b|it\b|is\b|was\b|are\b|my\b|that\b|in\b|on\b|of\b|still\b)@?\w+\s+(?:is|has|was|'s|started|queued)\b"),
    _rx(rf"{STOPPING}[^,.;]{{0,40}}\b(?:my|our|the|a|another)\s+(?:\w+\s+)?(?:lab ?mate|colleague|co-?worker|advis[eo]r|supervisor|boss|friend|student|intern|neighbou?r|team ?mate|professor|postdoc|room ?mate|user)s?\b"),
    _rx(rf"{STOPPING}\s+(?!my\b|mine\b|our\b)(?:all\s+|every\s+|any\s+|the\s+|of\s+|whatever\s+|what\s+)*(?:jobs?|runs?|experiments?|trainings?|process(?:es)?|everything|is|runs|running)\s+(?:that\s+(?:is|are)\s+)?(?:running\s+)?on\s+(?:the\s+)?(?:node|host|server|machine|gpu|card|box)[-_ ]?\w*"),
    _rx(rf"(?<!我在)(?<!我在 )(?<!我的)(?:node|host|gpu|服务器|机器|节点)[-_ ]?\w*(?:号卡|号机|卡)?\s*上(?!我)(?:的|正在跑的|在跑的|跑的)?(?:所有|全部)?(?:的)?(?:任务|实验|run|训练|进程)[^,.;]{{0,8}}{STOPPING}"),
    _rx(r"(?:everyone|everybody)(?:'s| else's)? (?:runs?|jobs?|experiments?).{0,20}(?:kill|cancel|stop)"),
)  # fmt: skip


def refusal(text: str) -> str | None:
    """Key of the sentence that refuses the text; None when nothing in it has to be refused."""
    return next((key for key, pattern in DANGERS if pattern.search(text)), None)


def others_runs(text: str) -> bool:
    """True when the text wants to stop or change what belongs to somebody else."""
    return any(pattern.search(text) for pattern in OTHERS)
