/* Files and directories in memory, each with what a power cut would leave.
 *
 * A file has its bytes and those that were last synced; whether a sector in which they differ survives a cut is chance.
 * A directory has its names and those that were last synced, and the changes in between, of which a cut leaves some
 * first part. A kept disk is a copy of everything, so that the one that was left behind may be used to its end.
 */
#define _GNU_SOURCE
#include "Disk.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct disk *sim_disk;
static struct disk *kept;
static uint64_t devices = 1000;

#define REGIONS 64
static struct { unsigned char *base; struct inode *inode; } regions[REGIONS];

static uint64_t mixed(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void *larger(void *memory, size_t bytes) {
    void *grown = realloc(memory, bytes);
    if (!grown) abort();
    return grown;
}

static int64_t blocks(int64_t bytes) { return (bytes + BLOCK - 1) / BLOCK; }

static struct inode *new_inode(struct disk *disk, const char *name, int is_directory) {
    struct inode *inode = calloc(1, sizeof *inode);
    if (!inode) abort();
    strncpy(inode->name, name, NAME_BYTES - 1);
    inode->is_directory = is_directory;
    inode->disk = disk;
    if (disk) {
        inode->number = disk->next_number++;
        inode->next = disk->inodes;
        disk->inodes = inode;
        disk->files++;
    }
    return inode;
}

static void free_inode(struct inode *inode) {
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].base && regions[i].inode == inode) {
            syscall(SYS_munmap, regions[i].base, MAPPED_BYTES);
            regions[i].base = NULL;
        }
    if (!inode->is_mapped) free(inode->bytes);
    free(inode->durable);
    free(inode->names.list);
    free(inode->durable_names.list);
    free(inode->changes);
    free(inode);
}

static struct disk *new_disk(int64_t blocks_max, int64_t files_max) {
    struct disk *disk = calloc(1, sizeof *disk);
    if (!disk) abort();
    disk->device = ++devices;
    disk->next_number = 1;
    disk->blocks_max = blocks_max;
    disk->files_max = files_max;
    return disk;
}

static void free_disk(struct disk *disk) {
    for (struct inode *inode = disk->inodes, *next; inode; inode = next) {
        next = inode->next;
        free_inode(inode);
    }
    free(disk);
}

/* MARK: names */

static struct entry *entry_of(struct entries *entries, const char *name) {
    for (int i = 0; i < entries->count; i++)
        if (strcmp(entries->list[i].name, name) == 0) return &entries->list[i];
    return NULL;
}

static void put(struct entries *entries, const char *name, struct inode *inode) {
    struct entry *old = entry_of(entries, name);
    if (!old) {
        if (entries->count == entries->capacity) {
            entries->capacity = entries->capacity ? entries->capacity * 2 : 8;
            entries->list = larger(entries->list, (size_t)entries->capacity * sizeof *entries->list);
        }
        old = &entries->list[entries->count++];
        memset(old, 0, sizeof *old);
        strncpy(old->name, name, NAME_BYTES - 1);
    }
    old->inode = inode;
}

static void take(struct entries *entries, const char *name) {
    struct entry *old = entry_of(entries, name);
    if (!old) return;
    memmove(old, old + 1, (size_t)(&entries->list[entries->count] - (old + 1)) * sizeof *old);
    entries->count--;
}

static void note(struct inode *directory, const char *from, const char *to, struct inode *inode) {
    if (directory->change_count == directory->change_capacity) {
        directory->change_capacity = directory->change_capacity ? directory->change_capacity * 2 : 8;
        directory->changes =
            larger(directory->changes, (size_t)directory->change_capacity * sizeof *directory->changes);
    }
    struct change *change = &directory->changes[directory->change_count++];
    memset(change, 0, sizeof *change);
    strncpy(change->from, from, NAME_BYTES - 1);
    strncpy(change->to, to, NAME_BYTES - 1);
    change->inode = inode;
}

static void apply(struct entries *entries, const struct change *change) {
    if (change->from[0]) take(entries, change->from);
    if (change->to[0]) put(entries, change->to, change->inode);
}

struct inode *sim_find(struct inode *directory, const char *name) {
    struct entry *entry = entry_of(&directory->names, name);
    return entry ? entry->inode : NULL;
}

struct inode *sim_make(struct inode *directory, const char *name, int is_directory) {
    struct inode *inode = new_inode(directory->disk, name, is_directory);
    inode->links = 1;
    put(&directory->names, name, inode);
    note(directory, "", name, inode);
    return inode;
}

static void count_out(struct inode *inode) {
    if (inode->links || inode->opens || !inode->disk) return;
    inode->disk->files--;
    inode->disk->blocks -= blocks(inode->size);
    // Only what a cut would bring back is kept; the counts do not have it any more.
    inode->disk = NULL;
}

void sim_remove(struct inode *directory, const char *name) {
    struct inode *inode = sim_find(directory, name);
    take(&directory->names, name);
    note(directory, name, "", NULL);
    inode->links = 0;
    count_out(inode);
}

void sim_move(struct inode *directory, const char *from, const char *to) {
    struct inode *inode = sim_find(directory, from), *over = sim_find(directory, to);
    if (over) {
        over->links = 0;
        count_out(over);
    }
    take(&directory->names, from);
    put(&directory->names, to, inode);
    note(directory, from, to, inode);
    memset(inode->name, 0, NAME_BYTES);
    strncpy(inode->name, to, NAME_BYTES - 1);
}

void sim_release(struct inode *inode) {
    inode->opens--;
    if (!inode->number) return inode->opens ? (void)0 : free_inode(inode);
    count_out(inode);
}

struct inode *sim_special(const char *text, int is_random) {
    struct inode *inode = new_inode(NULL, "special", 0);
    inode->is_random = is_random;
    inode->size = (int64_t)strlen(text);
    inode->bytes = larger(NULL, (size_t)inode->size + 1);
    memcpy(inode->bytes, text, (size_t)inode->size);
    return inode;
}

/* MARK: content */

int sim_resize(struct inode *file, int64_t size) {
    int64_t more = blocks(size) - blocks(file->size);
    if (file->disk) {
        if (more > 0 && file->disk->blocks + more > file->disk->blocks_max) return ENOSPC;
        file->disk->blocks += more;
    }
    if (size > file->capacity) {
        if (file->is_mapped) return EFBIG;
        int64_t capacity = file->capacity ? file->capacity : 1024;
        while (capacity < size) capacity *= 2;
        file->bytes = larger(file->bytes, (size_t)capacity);
        file->capacity = capacity;
    }
    if (size > file->size) memset(file->bytes + file->size, 0, (size_t)(size - file->size));
    file->size = size;
    return 0;
}

void sim_sync_inode(struct inode *inode) {
    if (inode->is_directory) {
        for (int i = 0; i < inode->change_count; i++) apply(&inode->durable_names, &inode->changes[i]);
        inode->change_count = 0;
        return;
    }
    inode->durable = larger(inode->durable, (size_t)inode->size + 1);
    if (inode->size) memcpy(inode->durable, inode->bytes, (size_t)inode->size);
    inode->durable_size = inode->size;
}

static void adopt(int region, struct inode *file) {
    unsigned char *base = regions[region].base, *old = file->bytes;
    if (file->size) memmove(base, old, (size_t)file->size);
    memset(base + file->size, 0, (size_t)(MAPPED_BYTES - file->size > 65536 ? 65536 : MAPPED_BYTES - file->size));
    free(old);
    regions[region].inode = file;
    file->bytes = base;
    file->capacity = MAPPED_BYTES;
    file->is_mapped = 1;
}

unsigned char *sim_map(struct inode *file, unsigned char *at) {
    if (file->size > MAPPED_BYTES) return NULL;
    for (int i = 0; at && i < REGIONS; i++) {
        if (regions[i].base != at) continue;
        struct inode *former = regions[i].inode;
        unsigned char *copy = larger(NULL, (size_t)former->size + 1);
        memcpy(copy, former->bytes, (size_t)former->size);
        former->bytes = copy;
        former->capacity = former->size;
        former->is_mapped = 0;
        adopt(i, file);
        return at;
    }
    if (at) return NULL;
    if (file->is_mapped) return file->bytes;
    for (int i = 0; i < REGIONS; i++) {
        if (regions[i].base) continue;
        long base = syscall(SYS_mmap, NULL, (size_t)MAPPED_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
        if (base == -1) return NULL;
        regions[i].base = (unsigned char *)base;
        adopt(i, file);
        return file->bytes;
    }
    return NULL;
}

struct inode *sim_mapped(const void *address) {
    for (int i = 0; i < REGIONS; i++) {
        const unsigned char *base = regions[i].base;
        if (base && (const unsigned char *)address >= base && (const unsigned char *)address < base + MAPPED_BYTES)
            return regions[i].inode;
    }
    return NULL;
}

/* MARK: copies */

struct cut {
    int is_power;
    uint64_t random;
    uint32_t keep;
};

static int survives(struct cut *cut) { return (mixed(&cut->random) & 255) < cut->keep; }

static struct inode *copy(struct inode *inode, struct disk *disk, struct cut *cut);

static void copy_names(const struct entries *from, struct entries *to, struct disk *disk, struct cut *cut) {
    for (int i = 0; i < from->count; i++) put(to, from->list[i].name, copy(from->list[i].inode, disk, cut));
}

static void copy_directory(struct inode *inode, struct inode *twin, struct disk *disk, struct cut *cut) {
    if (!cut->is_power) {
        copy_names(&inode->names, &twin->names, disk, cut);
        copy_names(&inode->durable_names, &twin->durable_names, disk, cut);
        for (int i = 0; i < inode->change_count; i++) {
            struct change *change = &inode->changes[i];
            note(twin, change->from, change->to, change->inode ? copy(change->inode, disk, cut) : NULL);
        }
        return;
    }
    // The changes that reached the device are the first ones.
    struct entries left = {0};
    for (int i = 0; i < inode->durable_names.count; i++)
        put(&left, inode->durable_names.list[i].name, inode->durable_names.list[i].inode);
    int reached = 0;
    while (reached < inode->change_count && survives(cut)) apply(&left, &inode->changes[reached++]);
    copy_names(&left, &twin->names, disk, cut);
    free(left.list);
    for (int i = 0; i < twin->names.count; i++)
        put(&twin->durable_names, twin->names.list[i].name, twin->names.list[i].inode);
}

static void copy_file(struct inode *inode, struct inode *twin, struct cut *cut) {
    int64_t size = inode->size;
    if (cut->is_power && size != inode->durable_size && !survives(cut)) size = inode->durable_size;
    twin->capacity = size + 1;
    twin->bytes = larger(NULL, (size_t)twin->capacity);
    twin->size = size;
    if (!cut->is_power) {
        if (size) memcpy(twin->bytes, inode->bytes, (size_t)size);
        twin->durable = larger(NULL, (size_t)inode->durable_size + 1);
        if (inode->durable_size) memcpy(twin->durable, inode->durable, (size_t)inode->durable_size);
        twin->durable_size = inode->durable_size;
        return;
    }
    for (int64_t at = 0; at < size; at += SECTOR) {
        int64_t count = size - at < SECTOR ? size - at : SECTOR;
        unsigned char old[SECTOR] = {0}, new[SECTOR] = {0};
        if (at < inode->durable_size) {
            int64_t known = inode->durable_size - at < count ? inode->durable_size - at : count;
            memcpy(old, inode->durable + at, (size_t)known);
        }
        if (at < inode->size) {
            int64_t known = inode->size - at < count ? inode->size - at : count;
            memcpy(new, inode->bytes + at, (size_t)known);
        }
        int is_new = memcmp(old, new, SECTOR) != 0 && survives(cut);
        memcpy(twin->bytes + at, is_new ? new : old, (size_t)count);
    }
    sim_sync_inode(twin);
}

static struct inode *copy(struct inode *inode, struct disk *disk, struct cut *cut) {
    if (inode->twin) return inode->twin;
    struct inode *twin = new_inode(disk, inode->name, inode->is_directory);
    inode->twin = twin;
    if (inode->is_directory) copy_directory(inode, twin, disk, cut); else copy_file(inode, twin, cut);
    return twin;
}

static void recount(struct inode *inode, struct disk *disk) {
    if (inode->links) return;
    inode->links = 1;
    disk->files++;
    disk->blocks += blocks(inode->size);
    for (int i = 0; i < inode->names.count; i++) {
        struct inode *child = inode->names.list[i].inode;
        memset(child->name, 0, NAME_BYTES);
        strncpy(child->name, inode->names.list[i].name, NAME_BYTES - 1);
        recount(child, disk);
    }
}

static void keep(struct cut *cut) {
    if (kept) free_disk(kept);
    kept = new_disk(sim_disk->blocks_max, sim_disk->files_max);
    for (struct inode *inode = sim_disk->inodes; inode; inode = inode->next) inode->twin = NULL;
    kept->root = copy(sim_disk->root, kept, cut);
    kept->files = kept->blocks = 0;
    recount(kept->root, kept);
    for (struct inode *inode = kept->inodes; inode; inode = inode->next)
        if (!inode->links) inode->disk = NULL;
}

void sim_keep_for_kill(void) {
    struct cut cut = {0};
    keep(&cut);
}

void sim_keep_for_power_cut(uint64_t seed, uint32_t share) {
    struct cut cut = {.is_power = 1, .random = seed, .keep = share};
    keep(&cut);
}

int32_t sim_restart(void) {
    if (!kept || sim_disk->opens) return 0;
    free_disk(sim_disk);
    sim_disk = kept;
    kept = NULL;
    return 1;
}

/* MARK: for the simulation */

void sim_format(int64_t bytes, int64_t files) {
    if (sim_disk) free_disk(sim_disk);
    if (kept) free_disk(kept);
    kept = NULL;
    sim_disk = new_disk(bytes / BLOCK, files);
    sim_disk->root = new_inode(sim_disk, "sim", 1);
    sim_disk->root->links = 1;
}

void sim_set_room(int64_t bytes, int64_t files) {
    sim_disk->blocks_max = bytes / BLOCK;
    sim_disk->files_max = files;
}

int64_t sim_used_bytes(void) { return sim_disk->blocks * BLOCK; }
int64_t sim_used_files(void) { return sim_disk->files; }
int64_t sim_open_files(void) { return sim_disk->opens; }

static struct inode *numbered(int64_t index) {
    int64_t found = 0;
    for (struct inode *inode = sim_disk->inodes; inode; inode = inode->next)
        if (inode->links && !inode->is_directory && found++ == index) return inode;
    return NULL;
}

const char *sim_file(int64_t index, int64_t *bytes) {
    struct inode *inode = numbered(index);
    if (!inode) return NULL;
    *bytes = inode->size;
    return inode->name;
}

void sim_flip(int64_t index, int64_t offset, uint32_t bit) {
    struct inode *inode = numbered(index);
    if (!inode || offset >= inode->size) return;
    inode->bytes[offset] ^= (unsigned char)(1 << (bit & 7));
    if (offset < inode->durable_size) inode->durable[offset] ^= (unsigned char)(1 << (bit & 7));
}

int64_t sim_seek(int64_t index, const char *text, int64_t offset) {
    struct inode *inode = numbered(index);
    size_t length = strlen(text);
    if (!inode || offset > inode->size) return -1;
    for (int round = 0; round < 2; round++) {
        int64_t from = round ? 0 : offset;
        unsigned char *found = memmem(inode->bytes + from, (size_t)(inode->size - from), text, length);
        if (found) return found - inode->bytes;
    }
    return -1;
}

static struct inode *parent_of(struct inode *directory, struct inode *child) {
    for (int i = 0; i < directory->names.count; i++) {
        struct inode *inode = directory->names.list[i].inode;
        if (inode == child) return directory;
        struct inode *found = inode->is_directory ? parent_of(inode, child) : NULL;
        if (found) return found;
    }
    return NULL;
}

void sim_lose(int64_t index) {
    struct inode *inode = numbered(index), *directory = inode ? parent_of(sim_disk->root, inode) : NULL;
    if (!directory) return;
    sim_remove(directory, inode->name);
    sim_sync_inode(directory);
}
