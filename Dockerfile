# Two images of one release (see docs/testing.md for how the tests build them):
#   --target manager    ptahk itself, with the Kubernetes client: `ptahk serve`, and the commands
#   --target executor   the first process of every operation Pod: the runner and the executor, with
#                       a database driver and without any Kubernetes client
# Both run as 65532:65532 and write nothing outside /tmp. BASE is any image with Python 3.11 or newer
# as python3, with venv; name it by digest. Every package comes from locks/, by version and hash, and
# what is compiled carries no time: equal sources on an equal base give equal files.
ARG BASE=docker.io/library/python:3.13-slim-bookworm

FROM ${BASE} AS build
# Both unset: packages come from the index that pip is configured with (pip ignores what is empty).
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
# Of what is built: modules are then compiled with the hash of their source, not with its time.
ARG SOURCE_DATE_EPOCH=1577836800
ENV PIP_NO_INDEX=${PIP_NO_INDEX} PIP_FIND_LINKS=${PIP_FIND_LINKS} \
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore \
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH}
RUN python3 -m venv /build

# Dependencies first: they change less often than the sources.
# The client's asyncio twin goes: a third of the image, and nothing imports it.
FROM build AS manager-dependencies
COPY locks/manager.txt /src/
RUN python3 -m venv --without-pip /opt/ptahk \
 && /build/bin/pip --python /opt/ptahk/bin/python install --require-hashes --no-deps \
    -r /src/manager.txt \
 && rm -r /opt/ptahk/lib/python3*/site-packages/kubernetes/aio

FROM build AS executor-dependencies
COPY locks/executor.txt /src/
RUN python3 -m venv --without-pip /opt/ptahk \
 && /build/bin/pip --python /opt/ptahk/bin/python install --require-hashes --no-deps \
    -r /src/executor.txt

FROM build AS wheel
COPY locks/build.txt /src/
RUN /build/bin/pip install --require-hashes --no-deps -r /src/build.txt
COPY pyproject.toml README.md LICENSE /src/
COPY ptahk /src/ptahk
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel /src

FROM manager-dependencies AS manager-build
COPY --from=wheel /wheel /wheel
RUN /build/bin/pip --python /opt/ptahk/bin/python install --no-deps /wheel/*.whl

FROM executor-dependencies AS executor-build
COPY --from=wheel /wheel /wheel
RUN /build/bin/pip --python /opt/ptahk/bin/python install --no-deps /wheel/*.whl

FROM ${BASE} AS executor
COPY --from=executor-build /opt/ptahk /opt/ptahk
ENV PATH=/opt/ptahk/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/opt/ptahk/bin/python", "-m", "ptahk.runner"]

FROM ${BASE} AS manager
COPY --from=manager-build /opt/ptahk /opt/ptahk
ENV PATH=/opt/ptahk/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/opt/ptahk/bin/python", "-m", "ptahk"]
