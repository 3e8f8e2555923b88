#include "weights/file_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

status file_out_begin(file_out *out, const char *path, error *e) {
    struct stat info;
    memset(out, 0, sizeof *out);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return error_set(e, ERR_IO, "%s: exists and is no plain file (give another name)", path);
    out->path = strdup(path);
    if (out->path == NULL || asprintf(&out->partial, "%s.partial", path) < 0) {
        out->partial = NULL;
        return error_set(e, ERR_MEMORY, "%s: no memory", path);
    }
    out->f = fopen(out->partial, "wb+");
    return out->f != NULL ? OK : error_set(e, ERR_IO, "%s: cannot be written: %s", out->partial, strerror(errno));
}

status file_out_write(file_out *out, const void *bytes, size_t n, error *e) {
    if (n == 0 || fwrite(bytes, 1, n, out->f) == n) return OK;
    return error_set(e, ERR_IO, "%s: cannot be written: %s", out->partial, strerror(errno));
}

status file_out_write_at(file_out *out, uint64_t at, const void *bytes, size_t n, error *e) {
    off_t back = ftello(out->f);
    bool ok = fseeko(out->f, (off_t)at, SEEK_SET) == 0 && fwrite(bytes, 1, n, out->f) == n;
    if (ok && fseeko(out->f, back, SEEK_SET) == 0) return OK;
    return error_set(e, ERR_IO, "%s: cannot be written: %s", out->partial, strerror(errno));
}

status file_out_reserve(const file_out *out, uint64_t bytes, error *e) {
    if (fflush(out->f) == 0 && ftruncate(fileno(out->f), (off_t)bytes) == 0) return OK;
    return error_set(e, ERR_IO, "%s: cannot be written: %s", out->partial, strerror(errno));
}

/* The folder too: else a crash may leave the old name. */
static void sync_folder(const char *path) {
    char *copy = strdup(path);
    if (copy == NULL) return;
    char *slash = strrchr(copy, '/');
    if (slash != NULL) slash[slash == copy] = '\0';
    int fd = open(slash != NULL ? copy : ".", O_RDONLY | O_DIRECTORY);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(copy);
}

status file_out_commit(file_out *out, error *e) {
    bool ok = fflush(out->f) == 0 && fsync(fileno(out->f)) == 0;
    ok = fclose(out->f) == 0 && ok;
    out->f = NULL;
    ok = ok && rename(out->partial, out->path) == 0;
    status s = ok ? OK : error_set(e, ERR_IO, "%s: cannot be written: %s", out->path, strerror(errno));
    if (ok) sync_folder(out->path);
    file_out_discard(out);
    return s;
}

void file_out_discard(file_out *out) {
    if (out->f != NULL) fclose(out->f);
    if (out->partial != NULL) unlink(out->partial);
    free(out->path);
    free(out->partial);
    memset(out, 0, sizeof *out);
}
