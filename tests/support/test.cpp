// The C++ side of test.h: hands the cases that C files registered to GoogleTest.
#include "tests/support/test.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" {
#include "tests/support/files.h"
}

namespace
{

struct Case {
    const char *suite;
    const char *name;
    const char *file;
    int line;
    mend_test_body body;
};

// Filled by constructors of C files, which may run before any constructor of this one.
std::vector<Case> &cases()
{
    static std::vector<Case> registered;
    return registered;
}

bool seed_was_used;
std::string program;

// The command that runs this test alone.
std::string repeat_line(const std::string &before)
{
    const testing::TestInfo *info = testing::UnitTest::GetInstance()->current_test_info();
    return "    again: " + before + program + " --gtest_filter='" + info->test_suite_name() + "." +
           info->name() + "'\n";
}

class CTest : public testing::Test
{
  public:
    explicit CTest(mend_test_body body) : body_(body) {}
    void TestBody() override
    {
        const int files = mend_test_open_files();
        seed_was_used = false;
        body_();
        EXPECT_TRUE(mend_test_files_stay || mend_test_files_are(files)) << "files are left open";
        EXPECT_FALSE(mend_test_holds_a_lock());
        if (HasFailure()) {
            std::string before;
            if (seed_was_used) {
                before = "MEND_TEST_SEED=" + std::to_string(mend_test_seed()) + " ";
            }
            std::printf("%s", repeat_line(before).c_str());
        }
    }

  private:
    mend_test_body body_;
};

std::string format_message(const char *format, va_list arguments)
{
    char message[2048];
    std::vsnprintf(message, sizeof(message), format, arguments);
    return message;
}

} // namespace

extern "C" void mend_test_register(const char *suite, const char *name, const char *file, int line,
                                   mend_test_body body)
{
    cases().push_back({suite, name, file, line, body});
}

extern "C" void mend_test_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::string message = format_message(format, arguments);
    va_end(arguments);
    ADD_FAILURE_AT(file, line) << message;
}

extern "C" bool mend_test_has_failed(void)
{
    return testing::Test::HasFailure();
}

extern "C" const char *mend_test_name(void)
{
    return testing::UnitTest::GetInstance()->current_test_info()->name();
}

extern "C" uint64_t mend_test_seed(void)
{
    seed_was_used = true;
    if (const char *given = std::getenv("MEND_TEST_SEED")) {
        return std::strtoull(given, nullptr, 0);
    }
    const testing::TestInfo *info = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(info->test_suite_name()) + "." + info->name();
    uint64_t hash = UINT64_C(1469598103934665603); // FNV-1a
    for (char letter : name) {
        hash = (hash ^ static_cast<unsigned char>(letter)) * UINT64_C(1099511628211);
    }
    return hash;
}

int main(int argc, char **argv)
{
    program = argv[0];
    // A sweep makes a world a thousand times: its memory stays, rather than come back page by page.
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    testing::InitGoogleTest(&argc, argv);
    for (const Case &c : cases()) {
        testing::RegisterTest(c.suite, c.name, nullptr, nullptr, c.file, c.line,
                              [body = c.body]() -> testing::Test * { return new CTest(body); });
    }
    return RUN_ALL_TESTS();
}
