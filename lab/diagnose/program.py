"""What programs, their packages, files and services say when they end a run."""

from __future__ import annotations

from lab.diagnose.rules import LINE, PATH, RANKS, SPECIFIC, SYMPTOM, Rule, any_of

LOADING = any_of(
    """
    torch.load( | load_state_dict( | load_checkpoint( | in load_checkpoint | in resume | serialization.py
    checkpoint[' | checkpoint[" | ckpt[' | ckpt[" | loading checkpoint | resuming from
    """
)
"""Near one of these a checkpoint is being read."""

PROGRAM: tuple[Rule, ...] = (
    # -- packages ----------------------------------------------------------------------------------------------------
    Rule(
        "import_error",
        SPECIFIC,
        any_of(
            """
            no module named | packagenotfounderror | distributionnotfound | no package metadata was found
            """
        ),
        "The module {} is not installed on this host: add it to the environment.",
        value=r"no module named ['\"]?([\w.]+)|found for ['\"]?([\w.-]+)|notfound: the ['\"]([\w.-]+)",
        otherwise="it names",
    ),
    Rule(
        "import_error",
        SPECIFIC,
        any_of("cannot import name"),
        "{} is not in the installed version of its package: install the version that the code was written for.",
        value=r"cannot import name ['\"]?(\w+['\"]? from ['\"]?[\w.]+)",
        otherwise="A name",
    ),
    Rule(
        "import_error",
        SPECIFIC + 2,
        any_of(
            """
            cannot open shared object file | undefined symbol | version `glib | version `cxxabi | dll load failed
            libbitsandbytes | operator torchvision:: | abi version | was compiled using numpy 1
            numpy.dtype size changed | module compiled against abi | requires the following packages
            requires*package*not found in your environment | torch not compiled with cuda enabled | cuda setup failed
            descriptors cannot be created directly | symbol not found in flat namespace | library not loaded
            """
        ),
        "A library does not load ({}): install a build that fits this host's Python, torch and system libraries.",
        value=r"(lib[\w.+-]+\.so[\w.]*|version `[\w.]+'|undefined symbol: \w+|torch not .*)|environment: ([\w, -]+)",
        otherwise=LINE,
        unless=("libcuda.so",),
    ),
    Rule(
        "import_error",
        SPECIFIC - 1,
        any_of("importerror: | modulenotfounderror: | failed to import"),
        "An import failed ({}): install what it wants in the version that the code was written for.",
        value=r"requires (?:the )?(?-i:([A-Z]\w+))|environment: ([\w, -]+)",
        otherwise=LINE,
    ),
    Rule(
        "import_error",
        SYMPTOM,
        any_of("command not found | executable file not found | versionconflict | : not found | 未找到命令"),
        "The program {} is not on this host: install it or correct the command.",
        value=r"([\w./-]+): (?:command )?not found|\"([\w./-]+)\": executable",
        otherwise="it calls",
        unless=("404",),
        only=r"command not found|未找到命令|executable file not found|versionconflict"
        r"|\bline \d+: [\w./-]+: not found|sh: \d+: ",
        shell=True,
    ),
    # -- compilers ---------------------------------------------------------------------------------------------------
    Rule(
        "compile_error",
        SPECIFIC + 5,
        any_of(
            """
            error building extension | nvrtc: error | ninja: build stopped | ninja is required
            cuda_home environment variable is not set | cuda_home does not exist
            nvcc fatal | nvcc*not found | ptxas fatal | ptxas error
            ptxas exited | backendcompilerfailed | torch._inductor.exc | inductorerror | loweringexception
            cppcompileerror | triton.compiler | compilationerror | out of resource: shared memory | outofresources
            failed to find c compiler | gcc: error | g++: error | fatal error: *.h | fatal error: *no such file
            collect2: error | undefined reference to | error: command*failed with exit | failed building wheel
            failed to build wheel | subprocess-exited-with-error | mismatches the version that was used to compile
            compilation terminated | unsupported gpu architecture | unsupported gnu version | torch._dynamo.exc
            no such file or directory: 'nvcc' | no such file or directory: '*/nvcc' | no such file or directory: 'gcc'
            unable to find cuda*nvcc | cmake error | make: *** | jit compil*failed | failed to compile
            compilation failed | xlaruntimeerror: internal: *compil | error compiling | error: identifier*is undefined
            """
        ),
        "Compiling failed ({}): fix the compiler, CUDA toolkit or package version, or run without compilation.",
        value=r"(extension '?\w+'?|CUDA version \([\d.]+\)|\w+\.h\b|compute_\d+|backend='\w+'|CUDA_HOME)",
        otherwise=LINE,
        unless=("falling back to eager", "suppress_errors"),
    ),
    # -- checkpoints -------------------------------------------------------------------------------------------------
    Rule(
        "checkpoint_mismatch",
        SPECIFIC + 4,
        any_of(
            """
            size mismatch for | size mismatch between saved | copying a param with shape
            missing key(s) in state_dict | unexpected key(s) in state_dict | error(s) in loading state_dict
            different number of parameter groups | parameter group that doesn't match | ignore_mismatched_sizes
            shape mismatch*checkpoint | checkpoint*shape mismatch | checkpoint*does not match
            checkpoint*doesn't match | checkpoint*incompatible | incompatible checkpoint | checkpoint*mismatch
            mismatch*checkpoint | not found in checkpoint | not in checkpoint | world size*checkpoint
            checkpoint*world size | checkpoint*dp world size | weights only load failed
            unresolved object in checkpoint | key*not found in state_dict | checkpoint has no
            state dict*has different | missing key in checkpoint | trying to set a tensor of shape
            """
        ),
        "The checkpoint does not fit the model ({}): correct the model's settings, or skip that part when loading.",
        value=r"(?:size mismatch for|in loading state_dict for) ([\w.]+)|in state_dict: ([^\n]{1,60})",
        otherwise=LINE,
        unless=("newly initialized", "not initialized from"),
    ),
    Rule(
        "checkpoint_mismatch",
        SPECIFIC + 3,
        any_of(
            """
            pytorchstreamreader failed | failed finding central directory | invalid header or archive is corrupted
            invalid load key | unexpected eof, expected | the file might be corrupted | safetensorerror
            error while deserializing header | headertoolarge | metadataincompletebuffer | checkpoint*corrupt
            corrupt*checkpoint | unable to load weights from pytorch checkpoint | not a zip archive
            is not a checkpoint | file in archive is not in a subdirectory | checkpoint*truncated
            storage has wrong size | magic number
            """
        ),
        "The checkpoint {} is cut short or damaged: resume from the one before it, or fetch it again.",
        value=PATH,
        otherwise="that was loaded",
        retryable=True,
    ),
    Rule(
        "checkpoint_mismatch",
        SPECIFIC + 3,
        any_of("ran out of input | pickle data was truncated"),
        "The checkpoint that was loaded is cut short: resume from the one before it, or fetch it again.",
        retryable=True,
        near=LOADING,
    ),
    Rule(
        "checkpoint_mismatch",
        SPECIFIC + 3,
        any_of("keyerror: | unpicklingerror"),
        "What was loaded is no checkpoint of this model ({}): check which file is resumed from.",
        value=r"error: (.{1,80})",
        otherwise=LINE,
        near=LOADING,
    ),
    Rule(
        "checkpoint_mismatch",
        SPECIFIC + 3,
        any_of("keyerror:"),
        "The checkpoint holds no {}: it was written by other code; resume from one of this program.",
        value=r"keyerror: (\S+)",
        otherwise="such entry",
        near=("checkpoint", "ckpt", "resum", ".pth", ".pt'", "load_state"),
        only=r"keyerror: ['\"](?:\w*optim\w*|\w*state_?dict\w*|model|net|epoch|\w*scheduler\w*|\w*scaler|\w*ema"
        r"|global_step|iteration|hyper_parameters|pytorch-lightning_version|rng_state|module\.\S+|\S+\.(?:weight|bias))['\"]",
    ),
    # -- credentials -------------------------------------------------------------------------------------------------
    Rule(
        "auth",
        SPECIFIC + 6,
        any_of(
            """
            do not have permission to access | don't have permission to access | 401 client error | 403 client error
            http error 401 | http error 403 | 401 unauthorized | 403 forbidden | status code 401 | status code 403
            error: 401 | error: 403 | unauthorized for url | gated repo | gatedrepoerror | is restricted. you must
            must be authenticated | requires authentication | authentication failed | authentication required
            authenticationerror | permission denied (publickey | api_key not configured | api key not configured
            no api key | invalid api key | incorrect api key | invalid credentials | bad credentials
            invalid user token | invalid username or password | invalid token | token has expired | token is expired
            token expired | token has been expired | invalid_grant | expiredtoken | invalidaccesskeyid
            signaturedoesnotmatch | accessdenied | access denied
            nocredentialserror | unable to locate credentials | could not automatically determine credentials
            defaultcredentialserror | could not read username | could not read password | could not find kaggle.json
            requested access to the resource is denied | pull access denied | unauthorized: | token is required
            localtokennotfounderror | token*not found*login | not logged in | you need to login | please log in
            permission_denied: | host key verification failed | noauth authentication | wrongpass
            does not have storage.objects | proxy authentication required | (401) when calling | (403) when calling
            apiexception: (401) | apiexception: (403) | httperror: 401 | httperror: 403 | reason: forbidden
            reason: unauthorized
            """
        ),
        "Access to {} was refused: ask for access and store a valid token on the host in the agreed way.",
        value=r"(?:url:?|repo(?:sitory)?|at|to) ['\"]?(https?://[^\s'\"?]+?)\.?(?:[\s'\"?]|$)|(wandb|kaggle|s3|git@[\w.]+)",
        otherwise="the service",
    ),
    # -- the net -----------------------------------------------------------------------------------------------------
    Rule(
        "network",
        SPECIFIC + 5,
        any_of(
            "certificate_verify_failed | certificate verify failed | self signed certificate | self-signed certificate"
        ),
        "The certificate of {} is not trusted here: have the proxy's authority installed, or put the file in a cache.",
        retryable=False,
        value=r"host='([^']+)'|https?://([^/\s'\"]+)",
        otherwise="the server",
    ),
    Rule(
        "network",
        SPECIFIC + 1,
        any_of(
            """
            offline mode is enabled | outgoing traffic has been disabled | hf_hub_offline | offlinemodeisenabled
            """
        ),
        "The library is told to stay offline and the file is not in its cache: fetch it once where there is a network.",
        retryable=False,
    ),
    Rule(
        "network",
        SPECIFIC + 5,
        any_of(
            """
            max retries exceeded | localentrynotfounderror | newconnectionerror | failed to establish a new connection
            temporary failure in name resolution | nodename nor servname | failed to resolve | could not resolve host
            couldn't resolve host | getaddrinfo failed | no address associated with hostname | read timed out
            readtimeouterror | readtimeout | connecttimeout | remotedisconnected | remote end closed connection
            incompleteread | chunkedencodingerror | protocolerror | proxyerror | cannot connect to proxy
            unable to connect to proxy | urlopen error | server error: | http error 5 | http error 429
            429 client error | too many requests | reduce your request rate | error 502 | error 503 | error 504
            503 service unavailable | 502 bad gateway | 504 gateway | service unavailable | bad gateway | curl: (
            rpc failed | unable to access 'http | early eof | could not connect to the endpoint
            endpointconnectionerror | statuscode.unavailable | invalid hash value | ssleoferror | sslerror
            ssl: unexpected_eof | wandb*commerror | commerror: run initialization has timed out | clientconnectorerror
            serverdisconnectederror | servertimeouterror | httpsconnectionpool | httpconnectionpool | slowdown
            retryerror | tls handshake timeout | wget: unable to resolve | rate limit | download failed
            consistency check failed | integrity check | checksum mismatch | md5 mismatch | hash mismatch
            incomplete download
            """
        ),
        "The network or {} failed: start again in a while, or put the file into the host's cache first.",
        value=r"host='([^']+)'|https?://([^/\s'\"]+)|resolve(?: host)?(?: address)?:? '?([\w.-]+)",
        otherwise="the server",
        unless=("gloo", "nccl", "tcpstore", "socket.cpp", "c10d"),
    ),
    Rule(
        "network",
        SPECIFIC + 5,
        any_of(
            """
            connection timed out | connection aborted | connection refused | connection broken
            connection reset by peer | connectionreseterror | no route to host | network is unreachable
            name or service not known | couldn't connect to | failed to connect to all addresses | i/o timeout
            stale file handle | transport endpoint is not connected | 拒绝连接 | 连接被拒绝 | 连接超时 | 网络不可达
            没有到主机的路由 | 连接被对方 | 名称解析暂时失败 | 域名解析暂时失败 | 未知的名称或服务 | 无法解析主机
            """
        ),
        "The network or {} failed: start again in a while.",
        value=r"host='([^']+)'|https?://([^/\s'\"]+)",
        otherwise="the other end",
        unless=("gloo", "nccl", "tcpstore", "socket.cpp", "c10d"),
        far=RANKS,
    ),
    # -- permissions -------------------------------------------------------------------------------------------------
    Rule(
        "permission",
        SPECIFIC + 1,
        any_of(
            """
            permissionerror | permission denied | errno 13] | operation not permitted | read-only file system
            insufficient permissions | eacces | 权限不够 | 没有权限 | 不允许的操作 | 只读文件系统
            """
        ),
        "The run may not use {}: choose a folder it may write to, or ask for the rights.",
        value=PATH,
        otherwise="that path",
        unless=("publickey", "permission_denied"),
        shell=True,
    ),
    # -- arguments ---------------------------------------------------------------------------------------------------
    Rule(
        "bad_args",
        SPECIFIC + 3,
        any_of(
            """
            error: unrecognized arguments | error: argument | error: the following arguments are required
            error: ambiguous option | invalid choice: | expected one argument | expected at least one argument
            error: one of the arguments | not allowed with argument | error: no such option | no such option:
            error: invalid value for | invalid value for | error: missing option | missing option '
            missing argument ' | error: missing argument | unexpected extra argument | unknown command line flag
            flags parsing error | could not override | is not in struct | could not find*in config
            in '*': could not find | missingconfigexception | missingmandatoryvalue | missing mandatory value
            mandatory value | configattributeerror | configkeyerror | configcompositionexception
            not used by the hfargumentparser | could not consume arg | unrecognized options | unknown option
            unrecognized option | invalid option | illegal option | no action for key | no action for destination
            parser key | cannot run with | can't open file | check batch related parameters | unknown model
            invalid learning rate | invalid partition | batch job submission failed | invalid account
            unknown argument | requested node configuration is not available | lexer no viable alternative
            overrideparseexception | invalid literal for int() with base 10: '- | 参数错误 | 无效参数
            error in call to target | validation error for | validation errors for | scannererror
            parsererror: while parsing | does not exist in the registry | invalid optimizer | unknown optimizer
            is not in the*registry | unknown dataset | unsupported optimizer | is not a valid choice
            argument --*: invalid | required options
            """
        ),
        "The command or configuration does not fit the program ({}): correct it and start again.",
        value=r"((?:argument|arguments|required:|option:?|flag|override|key|args?:|model|find) [^\n│|]{1,80})",
        otherwise=LINE,
        unless=("pandas", "tokenizing data"),
    ),
    # -- data --------------------------------------------------------------------------------------------------------
    Rule(
        "data_missing",
        SPECIFIC,
        any_of(
            """
            filenotfounderror | no such file or directory | notadirectoryerror | dataset not found | data not found
            not found or corrupted | found 0 files | found 0 images | found no valid file
            couldn't find any class folder | num_samples=0 | no images found | no files found | no data files found
            no samples found | no labels found | datasetnotfounderror | doesn't exist on the hub
            couldn't find a dataset | couldn't find file | couldn't find ' | entrynotfounderror
            repositorynotfounderror | revisionnotfounderror | 404 client error | http error 404 | 404 not found
            nosuchkey | nosuchbucket | unidentifiedimageerror | cannot identify image file | image file is truncated
            badzipfile | unexpected end of data | unable to open file ( | truncated file | emptydataerror
            does not exist | doesn't exist | is not a valid model identifier | does not appear to have a file named
            can't load*for ' | couldn't locate | not found on disk | data directory*not | no such dataset
            unable to find the | readerror: | nonmatchingsplitssizeserror | nonmatchingchecksumerror
            compressed file ended before | is empty | crc error | not a gzipped file | 数据集不存在 | 找不到
            nosuchfile | path does not exist | image not found | manifest*not found | datafilesnotfounderror
            datalosserror | truncated record | with 0 sample | (404) when calling | 没有那个文件或目录
            """
        ),
        "Data is missing or damaged: {}; check the path against the working folder and this host's data folder.",
        value=PATH + r"|(?:dataset|for) ['\"]([\w./-]+)|(num_samples=0)",
        otherwise=LINE,
        shell=True,
        unless=("attribute", "column", "has no", "key", "shared object", "module", "stop_iteration", "fatal error: "),
    ),
    Rule(
        "data_missing",
        SPECIFIC,
        any_of("imread_(*can't open"),
        "OpenCV could not read {} and gave None instead: check the path against this host's data folder.",
        value=PATH,
        otherwise="an image",
    ),
)
