/* A driver's library without a driver: answers from text files below $FAKE_NVML, so that the real nvidia-ml-py is
 * tested without a GPU. Looked at anew at every call.
 *
 *   driver   error code of every call; absent: the driver works
 *   0, 1...  one physical card a file, "key value" lines: uuid name bus total used v2_used util temp power procs mig
 *            throttle ecc pcie xids
 *            procs: pid:bytes pid:bytes, with -1 bytes for "not available"; mig: how many slices (files 0.0, 0.1...)
 *            pcie: KB/s to and from the card; a call takes 20 ms, as a real one does
 *            xids: those that the driver reported so far; an event set tells those that came after its registration
 *            lost 1: GPU_IS_LOST; error N: every call gives N; hang 1: calls block until the line is gone
 * A key that is absent is NOT_SUPPORTED. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { SLICES = 16, XID = 8 };

static int initialised = 0;

/* What the file holds now, read anew only when it was replaced; NULL when it is not there. A reader's thread asks for
 * one card over and over, and a real driver opens no files. */
static const char *content(const char *file) {
    static __thread char seen[512], content[4096];
    static __thread struct stat last;
    char path[512];
    struct stat now;
    snprintf(path, sizeof path, "%s/%s", getenv("FAKE_NVML"), file);
    if (stat(path, &now)) return NULL;
    if (!strcmp(path, seen) && now.st_ino == last.st_ino && now.st_ctim.tv_sec == last.st_ctim.tv_sec &&
        now.st_ctim.tv_nsec == last.st_ctim.tv_nsec && now.st_size == last.st_size)
        return content;
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    content[fread(content, 1, sizeof content - 1, f)] = 0;
    fclose(f);
    strcpy(seen, path);
    last = now;
    return content;
}

static int text(const char *file, const char *key, char *out, size_t size) {
    size_t n = strlen(key);
    for (const char *line = content(file); line && *line;) {
        size_t length = strcspn(line, "\n");
        if (!strncmp(line, key, n) && line[n] == ' ') {
            snprintf(out, size, "%.*s", (int)(length - n - 1), line + n + 1);
            return 1;
        }
        line += length + (line[length] == '\n');
    }
    return 0;
}

static int exists(const char *file) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("FAKE_NVML"), file);
    return access(path, F_OK) == 0;
}

static int driver(void) {
    char out[64];
    int code = text("driver", "error", out, sizeof out) ? atoi(out) : OK;
    if (code) initialised = 0;
    return code;
}

static void file_of(void *handle, char *out, size_t size) {
    long id = (long)handle - 1;
    if (id < 1000) snprintf(out, size, "%ld", id);
    else snprintf(out, size, "%ld.%ld", (id - 1000) / SLICES, (id - 1000) % SLICES);
}

/* The state of the card before any field is looked at. */
static int card(void *handle, char *file, size_t size) {
    char out[64];
    if (driver() || !initialised) return UNINITIALIZED;
    file_of(handle, file, size);
    while (text(file, "hang", out, sizeof out)) usleep(20000);
    if (!exists(file)) return NOT_FOUND;
    if (text(file, "lost", out, sizeof out)) return GPU_IS_LOST;
    return text(file, "error", out, sizeof out) ? atoi(out) : OK;
}

static int number(void *handle, const char *key, unsigned long long *value) {
    char file[32], out[512];
    int code = card(handle, file, sizeof file);
    if (code) return code;
    if (!text(file, key, out, sizeof out)) return NOT_SUPPORTED;
    *value = strtoull(out, NULL, 10);
    return OK;
}

static int string(void *handle, const char *key, char *value, unsigned size) {
    char file[32];
    int code = card(handle, file, sizeof file);
    if (code) return code;
    return text(file, key, value, size) ? OK : NOT_SUPPORTED;
}

int nvmlInitWithFlags(unsigned flags) {
    int code = driver();
    if (!code) initialised = 1;
    return code;
}

int nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised = 0;
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    char file[32];
    if (driver() || !initialised) return UNINITIALIZED;
    for (*count = 0; snprintf(file, sizeof file, "%u", *count), exists(file); ++*count) {}
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    char file[32], out[64];
    snprintf(file, sizeof file, "%u", index);
    *handle = (void *)(long)(index + 1);
    return text(file, "lost", out, sizeof out) ? GPU_IS_LOST : OK;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size) { return string(handle, "uuid", uuid, size); }
int nvmlDeviceGetName(void *handle, char *name, unsigned size) { return string(handle, "name", name, size); }

int nvmlDeviceGetPciInfo_v3(void *handle, char *pci) {
    unsigned long long bus;
    int code = number(handle, "bus", &bus);
    if (!code) ((unsigned *)(pci + 16))[1] = (unsigned)bus; /* busIdLegacy[16], domain, bus, device, ... */
    return code;
}

int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) { /* total, free, used */
    int code = number(handle, "total", &memory[0]);
    return code ? code : number(handle, "used", &memory[2]);
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, unsigned long long *memory) { /* version, total, reserved, free, used */
    int code = number(handle, "total", &memory[1]);
    return code ? code : number(handle, "v2_used", &memory[4]);
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) {
    unsigned long long util;
    int code = number(handle, "util", &util);
    if (!code) rates[0] = (unsigned)util, rates[1] = 0;
    return code;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
    unsigned long long temp;
    int code = number(handle, "temp", &temp);
    if (!code) *celsius = (unsigned)temp;
    return code;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    unsigned long long power;
    int code = number(handle, "power", &power);
    if (!code) *milliwatts = (unsigned)power;
    return code;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    return number(handle, "throttle", reasons);
}

int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *count) {
    return type == 1 && counter == 0 ? number(handle, "ecc", count) : NOT_SUPPORTED; /* uncorrected, volatile */
}

int nvmlDeviceGetPcieThroughput(void *handle, int counter, unsigned *kb) { /* 0: from the card, 1: to it */
    char file[32], out[64], *second;
    int code = card(handle, file, sizeof file);
    if (code) return code;
    if (!text(file, "pcie", out, sizeof out)) return NOT_SUPPORTED;
    usleep(20000);
    unsigned to = (unsigned)strtoul(out, &second, 10);
    *kb = counter ? to : (unsigned)strtoul(second, NULL, 10);
    return OK;
}

struct events { void *card; int told; };
struct event { void *card; unsigned long long type, data; unsigned gpu_instance, compute_instance; };

/* The Xid behind the first n of the card, 0 where there is none; n counts how many there are where it is negative. */
static int xid(void *handle, int *n, unsigned long long *found) {
    char file[32], out[512], *rest;
    int at = 0, code = card(handle, file, sizeof file);
    if (code) return code;
    if (!text(file, "xids", out, sizeof out)) return NOT_SUPPORTED;
    *found = 0;
    for (char *each = strtok_r(out, " ", &rest); each; each = strtok_r(NULL, " ", &rest), ++at)
        if (at == *n) *found = strtoull(each, NULL, 10);
    if (*n < 0) *n = at;
    return OK;
}

int nvmlDeviceGetSupportedEventTypes(void *handle, unsigned long long *types) {
    int n = -1;
    unsigned long long none;
    int code = xid(handle, &n, &none);
    *types = code ? 0 : XID;
    return code == NOT_SUPPORTED ? OK : code;
}

int nvmlEventSetCreate(void **set) {
    *set = calloc(1, sizeof(struct events));
    return initialised ? OK : UNINITIALIZED;
}

int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, struct events *set) {
    unsigned long long none;
    int n = -1, code = types == XID ? xid(handle, &n, &none) : NOT_SUPPORTED;
    set->card = handle;
    set->told = n;
    return code;
}

int nvmlEventSetWait_v2(struct events *set, struct event *event, unsigned timeout_ms) {
    unsigned long long found;
    int code = xid(set->card, &set->told, &found);
    if (code) return code;
    if (!found) {
        usleep(timeout_ms * 1000);
        return TIMEOUT;
    }
    ++set->told;
    *event = (struct event){set->card, XID, found, -1, -1};
    return OK;
}

int nvmlEventSetFree(struct events *set) {
    free(set);
    return OK;
}

struct process { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; };

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *found) {
    char out[512];
    unsigned n = 0;
    char *rest;
    int code = string(handle, "procs", out, sizeof out);
    if (code) return code;
    for (char *at = strtok_r(out, " ", &rest); at; at = strtok_r(NULL, " ", &rest), ++n) {
        if (found && n < *count) {
            found[n].pid = (unsigned)atoi(at);
            found[n].bytes = (unsigned long long)atoll(strchr(at, ':') + 1);
        }
    }
    code = n > *count ? INSUFFICIENT_SIZE : OK;
    *count = n;
    return code;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    unsigned long long slices;
    int code = number(handle, "mig", &slices);
    if (!code) *current = *pending = 1;
    return code;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    *count = 7;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **slice) {
    unsigned long long slices;
    int code = number(handle, "mig", &slices);
    if (code) return code;
    *slice = (void *)(1001 + ((long)handle - 1) * SLICES + index);
    return index < slices ? OK : NOT_FOUND;
}
