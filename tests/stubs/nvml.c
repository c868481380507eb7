/* A libnvidia-ml.so.1 without cards: what it answers stands in the file that NVML_RIG names.
 *
 * Each line is "PLACE KEY VALUE": the place is "system", "card0" or "card0.mig1"; of several lines
 * for one key the last counts. The file is read at every call, so cards change while somebody looks.
 * A VALUE of !15 is the error 15, "hang" never returns, "crash" is a segmentation fault. The key
 * "all" of a card, if it has one, comes before every other: !15 there, and it fell off the bus. A key
 * that is not there is not supported. With -DOLD, what newer drivers brought is missing altogether.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };
enum { PARTS = 100, CARDS = 64 };
typedef unsigned long long u64;
typedef void *handle; /* card * PARTS + part + 1, where part 0 is the card itself */
static char lost[CARDS]; /* as NVML remembers it: until it is opened anew */

static int find(const char *place, const char *key, char *value, size_t size) {
    char line[1024], *rest;
    const char *path = getenv("NVML_RIG");
    FILE *file = path ? fopen(path, "r") : NULL;
    int found = 0;
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!(rest = strchr(line, ' '))) continue;
        *rest++ = 0;
        char *said = strchr(rest, ' ');
        if (!said || strcmp(line, place)) continue;
        *said++ = 0;
        if (strcmp(rest, key)) continue;
        snprintf(value, size, "%s", said);
        found = 1;
    }
    fclose(file);
    return found;
}

static int obey(const char *value) {
    if (value[0] == '!') return atoi(value + 1);
    if (!strcmp(value, "hang")) for (;;) sleep(1000);
    if (!strcmp(value, "crash")) *(volatile int *)0 = 1;
    return OK;
}

static int text(const char *place, const char *key, char *value, size_t size) {
    return find(place, key, value, size) ? obey(value) : UNSUPPORTED;
}

static void place_of(handle device, char *place) {
    uintptr_t number = (uintptr_t)device - 1;
    int card = (int)(number / PARTS), part = (int)(number % PARTS);
    if (part) sprintf(place, "card%d.mig%d", card, part - 1);
    else sprintf(place, "card%d", card);
}

static int of(handle device, const char *key, char *value, size_t size) {
    char place[64], card[64];
    int code = OK, number = (int)(((uintptr_t)device - 1) / PARTS % CARDS);
    place_of(device, place);
    snprintf(card, sizeof card, "card%d", number);
    if (find(card, "all", value, size)) code = obey(value);
    if (code == LOST) lost[number] = 1;
    if (lost[number]) return LOST;
    return code ? code : text(place, key, value, size);
}

static int number(handle device, const char *key, u64 *value) {
    char said[1024];
    int code = of(device, key, said, sizeof said);
    if (!code) *value = strtoull(said, NULL, 0);
    return code;
}

static int small(handle device, const char *key, unsigned *value) {
    u64 large = 0;
    int code = number(device, key, &large);
    if (!code) *value = (unsigned)large;
    return code;
}

static int name(handle device, const char *key, char *value, unsigned size) {
    char said[1024];
    int code = of(device, key, said, sizeof said);
    if (code) return code;
    if (!strcmp(said, "endless")) memset(value, 'A', size); /* and no NUL */
    else if (!strcmp(said, "binary")) memcpy(value, "\xff\xfe\x80", 4);
    else snprintf(value, size, "%s", said);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) {
    char said[64];
    (void)flags;
    memset(lost, 0, sizeof lost);
    int code = text("system", "init", said, sizeof said);
    return code == UNSUPPORTED ? OK : code;
}
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the rig"; }

int nvmlSystemGetDriverVersion(char *value, unsigned size) {
    char said[256];
    int code = text("system", "driver", said, sizeof said);
    if (!code) snprintf(value, size, "%s", said);
    return code;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    char said[64];
    int code = text("system", "count", said, sizeof said);
    if (!code) *count = (unsigned)strtoul(said, NULL, 0);
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *device) {
    char said[64];
    *device = (handle)(uintptr_t)(index * PARTS + 1);
    int code = of(*device, "handle", said, sizeof said);
    return code == UNSUPPORTED ? OK : code;
}

int nvmlDeviceGetName(handle device, char *value, unsigned size) { return name(device, "name", value, size); }
int nvmlDeviceGetUUID(handle device, char *value, unsigned size) { return name(device, "uuid", value, size); }

struct memory { u64 total, free, used; };
int nvmlDeviceGetMemoryInfo(handle device, struct memory *memory) {
    int code = number(device, "memory", &memory->total);
    if (code) return code;
    memory->used = 0;
    number(device, "memory_used", &memory->used);
    memory->free = memory->total - memory->used;
    return OK;
}

struct place { char legacy[16]; unsigned domain, bus, device, ids[2]; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(handle device, struct place *place) {
    char said[64];
    int code = of(device, "pci", said, sizeof said);
    if (code) return code;
    memset(place, 0, sizeof *place);
    sscanf(said, "%x:%x:%x", &place->domain, &place->bus, &place->device);
    snprintf(place->bus_id, sizeof place->bus_id, "%.31s", said);
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(handle device, int *major, int *minor) {
    char said[64];
    int code = of(device, "capability", said, sizeof said);
    if (code) return code;
    return sscanf(said, "%d.%d", major, minor) == 2 ? OK : INVALID;
}

int nvmlDeviceGetMaxPcieLinkGeneration(handle device, unsigned *value) { return small(device, "pcie_generation", value); }
int nvmlDeviceGetMaxPcieLinkWidth(handle device, unsigned *value) { return small(device, "pcie_width", value); }
int nvmlDeviceGetMinorNumber(handle device, unsigned *value) { return small(device, "minor", value); }
int nvmlDeviceGetPowerUsage(handle device, unsigned *value) { return small(device, "power", value); }
int nvmlDeviceGetPowerManagementLimit(handle device, unsigned *value) { return small(device, "power_limit", value); }
int nvmlDeviceGetPowerManagementDefaultLimit(handle device, unsigned *value) { return small(device, "power_default", value); }
int nvmlDeviceGetPowerManagementLimitConstraints(handle device, unsigned *least, unsigned *most) {
    int code = small(device, "power_least", least);
    return code ? code : small(device, "power_most", most);
}
int nvmlDeviceSetPowerManagementLimit(handle device, unsigned value) {
    char said[64], place[64];
    int code = of(device, "set_power", said, sizeof said);
    if (code) return code;
    FILE *file = fopen(getenv("NVML_RIG"), "a");
    place_of(device, place);
    fprintf(file, "%s power_limit %u\n", place, value);
    return fclose(file) ? 999 : OK;
}

int nvmlDeviceGetTemperature(handle device, unsigned sensor, unsigned *value) {
    (void)sensor;
    return small(device, "temperature", value);
}

struct use { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(handle device, struct use *use) {
    use->memory = 0;
    return small(device, "utilisation", &use->gpu);
}

int nvmlDeviceGetTotalEccErrors(handle device, unsigned kind, unsigned since, u64 *value) {
    return kind == 1 && since == 0 ? number(device, "ecc", value) : UNSUPPORTED;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(handle device, u64 *value) { return number(device, "slowed", value); }

#ifndef OLD
int nvmlDeviceGetCurrentClocksEventReasons(handle device, u64 *value) { return number(device, "slowed", value); }

struct process { unsigned pid; u64 memory; unsigned gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(handle device, unsigned *count, struct process *list) {
    char said[1024], *at = said;
    unsigned room = *count, known = 0, gpu, compute;
    int code = of(device, "processes", said, sizeof said), length;
    if (code) return code;
    if (sscanf(said, "lie %u", count) == 1) return TOO_SMALL;
    for (unsigned pid; sscanf(at, "%u:%u:%u%n", &pid, &gpu, &compute, &length) == 3; at += length)
        if (known++ < room && list) list[known - 1] = (struct process){pid, 1 << 20, gpu, compute};
    *count = known;
    return known > room ? TOO_SMALL : OK;
}

int nvmlDeviceGetMigMode(handle device, unsigned *current, unsigned *pending) {
    *pending = 0;
    return small(device, "mig", current);
}
int nvmlDeviceGetMaxMigDeviceCount(handle device, unsigned *count) {
    (void)device;
    *count = 7;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(handle device, unsigned index, handle *part) {
    char said[128];
    *part = (handle)((uintptr_t)device + 1 + index);
    return of(*part, "uuid", said, sizeof said) == UNSUPPORTED ? NOT_FOUND : OK;
}
int nvmlDeviceGetGpuInstanceId(handle device, unsigned *value) { return small(device, "gpu_instance", value); }
int nvmlDeviceGetComputeInstanceId(handle device, unsigned *value) { return small(device, "compute_instance", value); }

struct attributes { unsigned processors, rest[7]; u64 memory_mib; };
int nvmlDeviceGetAttributes_v2(handle device, struct attributes *value) {
    u64 bytes = 0;
    int code = number(device, "memory", &bytes);
    memset(value, 0, sizeof *value);
    if (code) return code;
    value->memory_mib = bytes >> 20;
    return small(device, "processors", &value->processors);
}
#endif
