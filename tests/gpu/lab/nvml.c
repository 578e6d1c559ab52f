/* A libnvidia-ml.so.1 without a GPU: as much of NVML as tbd calls, with NVIDIA's own signatures and layouts (nvml.h).
 *
 * It answers from a file of lines "key=value", named by TBD_LAB_SITUATION and read anew whenever it has changed, so that
 * a test changes the machine while a run goes on: tests/gpu/lab/machine.py writes it and says which keys there are.
 * DRIVER, the driver's major version, decides which functions exist at all.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#ifndef DRIVER
#define DRIVER 580
#endif

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9,
       TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { GPUS = 32, INSTANCES = 7, MOST_BYTES = 1 << 20, MOST_PROCESSES = 64 };

typedef struct { int gpu, instance; } Device; /* instance 0: the GPU itself; others: of MIG, counted from 1 */
static Device devices[GPUS][INSTANCES + 1];

static char text[MOST_BYTES];
static struct stat known;

static void refresh(void) {
    const char *path = getenv("TBD_LAB_SITUATION");
    struct stat now;
    if (!path || stat(path, &now)) { text[0] = 0; return; }
    if (now.st_ino == known.st_ino && now.st_mtim.tv_sec == known.st_mtim.tv_sec
        && now.st_mtim.tv_nsec == known.st_mtim.tv_nsec) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    text[0] = '\n';
    size_t length = fread(text + 1, 1, MOST_BYTES - 2, file);
    text[length + 1] = 0;
    fclose(file);
    known = now;
}

/* The value of a key, up to the end of its line; NULL where there is none. */
static const char *value(const char *key) {
    char wanted[300];
    snprintf(wanted, sizeof wanted, "\n%s=", key);
    const char *found = strstr(text, wanted);
    return found ? found + strlen(wanted) : NULL;
}

static int copy(const char *found, char *into, unsigned room) {
    size_t length = strcspn(found, "\n");
    if (length + 1 > room) return INSUFFICIENT_SIZE;
    memcpy(into, found, length);
    into[length] = 0;
    return OK;
}

/* A key of a device: "gpu.3.name", and of an instance of it "gpu.3.mig.1.name". */
static const char *of(const Device *device, const char *name) {
    char key[256];
    if (device->instance) snprintf(key, sizeof key, "gpu.%d.mig.%d.%s", device->gpu, device->instance, name);
    else snprintf(key, sizeof key, "gpu.%d.%s", device->gpu, name);
    return value(key);
}

static double number(const Device *device, const char *name, double otherwise) {
    const char *found = of(device, name);
    return found ? strtod(found, NULL) : otherwise;
}

static int refusal(const char *function, const Device *device) {
    char key[200];
    refresh();
    snprintf(key, sizeof key, "error.%s", function);
    const char *everywhere = value(key);
    if (everywhere) return atoi(everywhere);
    if (!device) return OK;
    if (number(&devices[device->gpu][0], "lost", 0)) return GPU_IS_LOST;
    return (int)number(device, key, OK);
}

/* Every function begins so: it may have been told to fail, for all devices or for this one. */
#define ASKED(device) int code = refusal(__func__, device); if (code) return code
/* What an instance of MIG does not have (nvml.h: "not supported on MIG devices"). */
#define WHOLE(device) if ((device)->instance) return NOT_SUPPORTED
#define MAYBE(device, name) if (!of(device, name)) return NOT_SUPPORTED

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

int nvmlInitWithFlags(unsigned flags) {
    ASKED(NULL);
    for (int gpu = 0; gpu < GPUS; gpu++)
        for (int instance = 0; instance <= INSTANCES; instance++)
            devices[gpu][instance] = (Device){gpu, instance};
    return value("driver") ? OK : DRIVER_NOT_LOADED;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { ASKED(NULL); return OK; }
const char *nvmlErrorString(int code) { static char told[40]; snprintf(told, sizeof told, "code %d", code); return told; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) { ASKED(NULL); return copy(value("driver"), version, length); }
int nvmlSystemGetCudaDriverVersion(int *version) { ASKED(NULL); *version = atoi(value("cuda")); return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { ASKED(NULL); *version = atoi(value("cuda")); return OK; }

int nvmlDeviceGetCount_v2(unsigned *count) { ASKED(NULL); *count = (unsigned)atoi(value("gpus")); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    if (index >= GPUS) return INVALID_ARGUMENT;
    *device = &devices[index][0];
    ASKED(*device);
    return OK;
}
int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned length) { ASKED(device); return copy(of(device, "uuid"), uuid, length); }
int nvmlDeviceGetName(Device *device, char *name, unsigned length) { ASKED(device); return copy(of(device, "name"), name, length); }
int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    ASKED(device);
    int whole = (int)(10 * number(&devices[device->gpu][0], "capability", 9.0) + 0.5);
    *major = whole / 10;
    *minor = whole % 10;
    return OK;
}
int nvmlDeviceGetMemoryInfo(Device *device, unsigned long long *memory /* total, free, used */) {
    ASKED(device);
    memory[0] = (unsigned long long)number(device, "memory_bytes", 80e9);
    memory[2] = (unsigned long long)number(device, "used_bytes", 0);
    memory[1] = memory[0] - memory[2];
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *milliwatts) {
    ASKED(device); WHOLE(device);
    *milliwatts = (unsigned)(1000 * number(device, "power_limit_w", 700));
    return OK;
}
/* The cores near a device as a bit mask, those of the first word alone. */
int nvmlDeviceGetCpuAffinity(Device *device, unsigned words, unsigned long *mask) {
    ASKED(device); WHOLE(device);
    const char *found = of(device, "near_cores");
    if (!found) return NOT_SUPPORTED;
    memset(mask, 0, words * sizeof *mask);
    mask[0] = strtoul(found, NULL, 0);
    return OK;
}
int nvmlDeviceGetUtilizationRates(Device *device, unsigned *rates /* gpu, memory */) {
    ASKED(device); WHOLE(device);
    rates[0] = (unsigned)number(device, "busy_percent", 0);
    rates[1] = 0;
    return OK;
}
int nvmlDeviceGetPowerUsage(Device *device, unsigned *milliwatts) {
    ASKED(device); WHOLE(device);
    *milliwatts = (unsigned)(1000 * number(device, "power_w", 100));
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *millijoules) {
    ASKED(device); WHOLE(device);
    *millijoules = (unsigned long long)(1000 * number(device, "power_w", 100) * seconds());
    return OK;
}
int nvmlDeviceGetTemperature(Device *device, unsigned sensor, unsigned *celsius) {
    ASKED(device); WHOLE(device);
    *celsius = (unsigned)number(device, "temperature_c", 40);
    return OK;
}
int nvmlDeviceGetClockInfo(Device *device, unsigned kind, unsigned *mhz) {
    ASKED(device); WHOLE(device);
    *mhz = (unsigned)(kind == 2 ? number(device, "memory_mhz", 2619) : number(device, "sm_mhz", 1980));
    return OK;
}
int nvmlDeviceGetMaxClockInfo(Device *device, unsigned kind, unsigned *mhz) {
    ASKED(device); WHOLE(device);
    *mhz = kind == 2 ? 2619 : (unsigned)number(device, "most_sm_mhz", 1980);
    return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *reasons) {
    ASKED(device); WHOLE(device);
    *reasons = (unsigned long long)number(device, "throttle_reasons", 0);
    return OK;
}
#if DRIVER >= 535
int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *reasons) {
    ASKED(device); WHOLE(device);
    *reasons = (unsigned long long)number(device, "throttle_reasons", 0);
    return OK;
}
#endif

int nvmlDeviceGetPersistenceMode(Device *device, int *mode) { ASKED(device); WHOLE(device); *mode = (int)number(device, "persistence", 1); return OK; }
int nvmlDeviceGetEccMode(Device *device, int *current, int *pending) {
    ASKED(device); WHOLE(device); MAYBE(device, "ecc");
    *current = *pending = (int)number(device, "ecc", 1);
    return OK;
}
int nvmlDeviceGetTotalEccErrors(Device *device, int kind, int counter, unsigned long long *count) {
    ASKED(device); WHOLE(device); MAYBE(device, "ecc");
    *count = kind == 1 ? (unsigned long long)number(device, "uncorrected_ecc_errors", 0) : 0;
    return OK;
}
int nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    ASKED(device); WHOLE(device);
    *corrected = *uncorrected = 0;
    *pending = (unsigned)number(device, "remapping_pending", 0);
    *failed = (unsigned)number(device, "remapping_failed", 0);
    return OK;
}

/* Values by number: "field.82=60"; what is not there is not supported, and of older drivers neither is what came later. */
typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    unsigned type, code;
    union { double d; unsigned long long ull; } value;
} FieldValue;

int nvmlDeviceGetFieldValues(Device *device, int count, FieldValue *values) {
    ASKED(device);
    for (int i = 0; i < count; i++) {
        char key[40];
        snprintf(key, sizeof key, "field.%u", values[i].field);
        int known = of(device, key) && !(DRIVER < 570 && values[i].field >= 269);
        values[i].type = 3; /* unsigned long long */
        values[i].value.ull = known ? (unsigned long long)number(device, key, 0) : 0;
        snprintf(key, sizeof key, "field.%u.error", values[i].field);
        values[i].code = known ? (unsigned)number(device, key, OK) : NOT_SUPPORTED;
    }
    return OK;
}

/* state, behind the cluster's UUID (16 bytes), a status and the clique: 3 is well, 0 a device without such a fabric. */
int nvmlDeviceGetGpuFabricInfo(Device *device, unsigned *told) {
    ASKED(device); WHOLE(device);
    memset(told, 0, 7 * sizeof *told);
    told[4] = (unsigned)number(device, "fabric_status", OK);
    told[6] = (unsigned)number(device, "fabric", 3);
    return OK;
}

int nvmlDeviceGetVbiosVersion(Device *device, char *version, unsigned length) {
    ASKED(device); WHOLE(device); MAYBE(device, "vbios");
    return copy(of(device, "vbios"), version, length);
}
int nvmlDeviceGetMaxPcieLinkGeneration(Device *device, unsigned *generation) {
    ASKED(device); WHOLE(device);
    *generation = (unsigned)number(device, "pcie_generation", 5);
    return OK;
}
int nvmlDeviceGetCurrPcieLinkWidth(Device *device, unsigned *width) {
    ASKED(device); WHOLE(device);
    *width = (unsigned)number(device, "pcie_width", 16);
    return OK;
}
int nvmlDeviceGetMaxPcieLinkWidth(Device *device, unsigned *width) {
    ASKED(device); WHOLE(device);
    *width = (unsigned)number(device, "pcie_most_width", 16);
    return OK;
}
int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *up) {
    ASKED(device); WHOLE(device); MAYBE(device, "nvlinks");
    *up = link < number(device, "nvlinks", 0);
    return link < 18 ? OK : INVALID_ARGUMENT;
}

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    ASKED(device); WHOLE(device); MAYBE(device, "mig");
    *current = *pending = number(device, "mig", 0) > 0 || of(device, "mig_without_instances");
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) { ASKED(device); *count = INSTANCES; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **instance) {
    ASKED(device);
    if (index >= number(device, "mig", 0)) return NOT_FOUND;
    *instance = &devices[device->gpu][index + 1];
    return OK;
}

/* Who computes: the processes of this machine whose environment names the device, as a process of CUDA's would: those of
 * an attempt (they have its token), and those that a test has started with TBD_LAB_COMPUTES. */
static int names(int pid, const Device *device) {
    static char environment[1 << 17];
    char path[64], uuid[100];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t length = fread(environment, 1, sizeof environment - 1, file);
    fclose(file);
    environment[length] = 0;
    copy(of(device, "uuid"), uuid, sizeof uuid);
    int token = 0, visible = 0, computes = 0;
    for (char *one = environment; one < environment + length; one += strlen(one) + 1) {
        token |= !strncmp(one, "TBD_ATTEMPT_TOKEN=", 18);
        visible |= !strncmp(one, "CUDA_VISIBLE_DEVICES=", 21) && strstr(one, uuid);
        computes |= !strncmp(one, "TBD_LAB_COMPUTES=", 17) && strstr(one, uuid);
    }
    return (token && visible) || computes;
}

typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } Process;

static int processes(Device *device, unsigned *count, Process *into) {
    unsigned found = 0;
    const char *pids = value("pids"); /* translated, host (of another namespace), or none (the list is empty) */
    int shift = pids && !strncmp(pids, "host", 4) ? 4000000 : 0;
    unsigned room = into ? *count : 0;
    DIR *folder = pids && !strncmp(pids, "none", 4) ? NULL : opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int pid = atoi(entry->d_name);
        if (pid <= 0 || !names(pid, device)) continue;
        if (found < room)
            into[found] = (Process){(unsigned)(pid + shift), (unsigned long long)number(device, "process_bytes", 1e9), ~0u, ~0u};
        found++;
    }
    if (folder) closedir(folder);
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device *device, unsigned *count, Process *into) {
    ASKED(device);
    return processes(device, count, into);
}
#if DRIVER >= 510
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *into) {
    ASKED(device);
    return processes(device, count, into);
}
#endif

/* XID errors: "gpu.3.xid=79" is told once to each process that has asked to hear of that device. */
typedef struct { Device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;
static int listened[GPUS], told[GPUS];
int nvmlEventSetCreate(void **set) { ASKED(NULL); *set = listened; return OK; }
int nvmlEventSetFree(void *set) { ASKED(NULL); return OK; }
int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, void *set) {
    ASKED(device); WHOLE(device);
    listened[device->gpu] = (types & 8) != 0;
    return OK;
}
int nvmlEventSetWait_v2(void *set, Event *event, unsigned milliseconds) {
    ASKED(NULL);
    for (int gpu = 0; gpu < GPUS; gpu++) {
        int xid = (int)number(&devices[gpu][0], "xid", 0);
        if (!listened[gpu] || told[gpu] == xid) continue;
        told[gpu] = xid;
        *event = (Event){&devices[gpu][0], 8, (unsigned long long)xid, ~0u, ~0u};
        if (xid) return OK;
    }
    return TIMEOUT;
}

#if DRIVER >= 520
/* GPM: "gpu.3.gpm.12=50" is 50 of the metric 12; a metric that is not there is not supported. */
typedef struct { unsigned id; int code; double value; const char *short_name, *long_name, *unit; } Metric;
typedef struct { unsigned version, count; void *before, *after; Metric metrics[]; } Metrics;
typedef struct { Device *device; double at; } Sample;
int nvmlGpmQueryDeviceSupport(Device *device, unsigned *support /* version, isSupportedDevice */) {
    ASKED(device);
    support[1] = number(device, "gpm", 0) > 0;
    return OK;
}
int nvmlGpmSampleAlloc(Sample **sample) { ASKED(NULL); *sample = calloc(1, sizeof **sample); return OK; }
int nvmlGpmSampleFree(Sample *sample) { ASKED(NULL); free(sample); return OK; }
int nvmlGpmSampleGet(Device *device, Sample *sample) { ASKED(device); *sample = (Sample){device, seconds()}; return OK; }
int nvmlGpmMetricsGet(Metrics *asked) {
    ASKED(((Sample *)asked->after)->device);
    for (unsigned index = 0; index < asked->count; index++) {
        char name[20];
        snprintf(name, sizeof name, "gpm.%u", asked->metrics[index].id);
        const Device *device = ((Sample *)asked->after)->device;
        asked->metrics[index].code = of(device, name) ? OK : NOT_SUPPORTED;
        asked->metrics[index].value = number(device, name, 0);
    }
    return OK;
}
#endif
