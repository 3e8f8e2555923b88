/* Every preset is a valid shape with a source, and makes as many parameters as were published. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <jansson.h>
#include <string.h>

#include "tools/presets.h"

static void for_each_preset(void (*f)(const char *name, const json_t *root)) {
    int n = 0;
    for (const embedded_file *p = preset_files; p->name != NULL; p++, n++) {
        json_t *root = json_loads(p->text, JSON_REJECT_DUPLICATES, NULL);
        if (root == NULL) fail_msg("%s is not JSON", p->name);
        f(p->name, root);
        json_decref(root);
    }
    assert_true(n >= 25);
}

static void check_source(const char *name, const json_t *root) {
    const char *source = json_string_value(json_object_get(root, "source"));
    if (source == NULL || strlen(source) < 10) fail_msg("%s names no source", name);
    assert_non_null(json_string_value(json_object_get(root, "name")));
}

static void every_preset_names_its_source(void **state) {
    (void)state;
    for_each_preset(check_source);
}

static void check_parameters(const char *name, const json_t *root) {
    model_config c;
    error e = {OK, ""};
    if (preset_load(&c, name, &e) != OK) fail_msg("%s", e.message);
    json_int_t published = json_integer_value(json_object_get(root, "_parameters"));
    json_int_t elsewhere = json_integer_value(json_object_get(root, "_parameters_not_here"));
    if (published == 0) {
        assert_non_null(json_object_get(root, "_note")); /* no exact count was published: the file says so */
        return;
    }
    if ((json_int_t)config_params(&c).total + elsewhere != published) fail_msg("%s: %lld", name, (long long)published);
}

static void every_preset_has_the_published_number_of_parameters(void **state) {
    (void)state;
    for_each_preset(check_parameters);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_names_its_source),
        cmocka_unit_test(every_preset_has_the_published_number_of_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
