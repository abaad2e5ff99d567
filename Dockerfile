# A server for one model, which is mounted at /model and only read:
#
#   docker build -t natpn .
#   docker run --rm -p 8000:8000 -e NATPN_TOKEN=… -v "$PWD/rent:/model:ro" natpn
#
# Options of `natpn serve` go behind the name of the image: natpn --workers 4 --allow-host rent.example

FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/natpn
ENV PATH=/opt/natpn/bin:$PATH
WORKDIR /build
COPY constraints.txt ./
# Without CUDA, torch is a tenth as large. What it requires comes from PyPI, with the rest.
RUN pip install --no-deps --index-url https://download.pytorch.org/whl/cpu -c constraints.txt torch
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install -c constraints.txt '.[serve]'

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin natpn
COPY --from=build /opt/natpn /opt/natpn
# One thread a process: workers use the other cores.
ENV PATH=/opt/natpn/bin:$PATH OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["natpn", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
CMD ["--workers", "2", "--access-log"]
